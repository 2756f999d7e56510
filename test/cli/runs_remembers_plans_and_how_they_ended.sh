# SPDX-License-Identifier: Apache-2.0
# Plans record themselves; an actual answers one; the range is held against it.
plan() { "$GPUHOURS" plan --model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8 "$@" >/dev/null; }
dated() { sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:]+Z)?/DATE/g; /^(program|  program) /d'; }
"$GPUHOURS" runs
plan
plan
plan --method qlora --name night
"$GPUHOURS" runs | dated
"$GPUHOURS" runs actual 1 --wall-hours 0.2 --tokens-per-second 70000 | dated | head -13
"$GPUHOURS" runs --kind run | dated
"$GPUHOURS" runs --stack unsloth
"$GPUHOURS" runs --since 2000-01-01 --most 1 | wc -l
"$GPUHOURS" runs coverage
"$GPUHOURS" runs show 1 --document | head -c 27
echo
echo "--- compared"
"$GPUHOURS" runs compare 1 3 | dated | tr -s ' ' | sed '/^at /d; /^identical/q' # at: two entries may share a second, which changes widths
