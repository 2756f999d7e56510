# SPDX-License-Identifier: Apache-2.0
# Each wrong request ends with one sentence and the exit code of its kind; none crashes.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
try() {
    echo "plan $*"
    "$GPUHOURS" plan "$@"
    echo "exit $?"
}
good="--model llama-3.1-8b --tokens 21.4M"
try
try --model llama-3.1-8b
try --model lama-3.1-8b --tokens 1M
try --model test/data/plan/broken.json --tokens 1M
try --model test/data/plan/nowhere/config.json --tokens 1M
try --model llama-3.1-8b --tokens -5
try --model llama-3.1-8b --tokens 0
try --model llama-3.1-8b --tokens 1e30
try --model llama-3.1-8b --tokens nan
try --model llama-3.1-8b --tokens many
try --model llama-3.1-8b --tokens
try $good --gpus 0
try $good --gpus 1000000
try $good --gpus -1
try $good --gpu h1000
try $good --context 0
try $good --context 1e12
try $good --epochs 0
try $good --epochs -1
try $good --epochs nan
try $good --epochs 1e9
try $good --micro-batch 0
try $good --micro-batch two
try $good --global-batch 0
try $good --method lorra
try $good --rank 0
try $good --rank 100000
try $good --targets nothing
try $good --parallel tp3 --gpu h100 --gpus 8
try $good --parallel zero9 --gpu h100 --gpus 8
try $good --parallel ddpp --gpu h100 --gpus 8
try $good --parallel tp64 --gpu h100 --gpus 64
try $good --parallel pp64 --gpu h100 --gpus 64
try $good --nodes 3 --gpu h100 --gpus 8
try $good --stack hugging
try $good --stack test/data/plan/broken.json
try $good --packing perhaps
try $good --batching sorted
try $good --eval-share 2
try $good --labelled-share -1
try $good --storage 0
try $good --deadline soon
try $good --deadline 0
try $good --budget 0
try $good --price 20/h
try $good --price 2.49/month
try $good --price 2.49EUR
try $good --budget 500/h
try $good --retries -1
try $good --examples 1e12
try $good --tokens 21.4
try $good --contxt 2048
try --examples 52002 --model llama-3.1-8b
