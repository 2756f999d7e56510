# SPDX-License-Identifier: Apache-2.0
# The answer is the exit code: a 70B model under full training does not fit one card.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
"$GPUHOURS" memory --model llama-3.1-8b --method qlora --gpu rtx-4090 | grep -om 1 'fits (9'
"$GPUHOURS" memory --model llama-3.1-8b --json | grep -o '"kind": "memory"'
"$GPUHOURS" memory --model llama-3.1-70b --method full --gpu h100 | grep -o 'DOES NOT FIT'
"$GPUHOURS" memory --model llama-3.1-70b --method full --gpu h100 > /dev/null
