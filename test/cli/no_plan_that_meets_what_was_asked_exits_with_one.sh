# SPDX-License-Identifier: Apache-2.0
# Does not fit, misses the deadline, exceeds the budget: exit code 1 of every command; 0 where it is met.
job="--model llama-3.1-8b --tokens 100M --gpu h100 --gpus 1 --search off"
try() {
    "$GPUHOURS" "$@" >/dev/null 2>&1
    echo "exit $?: $*"
}
try plan $job
try plan $job --deadline 48h --budget 1000
try plan $job --deadline 10min
try plan $job --budget 0.01
try plan $job --deadline 10min --json
try plan $job --model llama-3.1-70b --method full
try memory --model llama-3.1-70b --method full --gpu h100
try hosts --model llama-3.1-8b --tokens 100M --gpu h100 --deadline 48h
try hosts --model llama-3.1-8b --tokens 100M --gpu h100 --deadline 1min
try hosts --model llama-3.1-8b --tokens 100M --gpu h100 --budget 0.01
