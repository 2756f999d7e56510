# SPDX-License-Identifier: Apache-2.0
# Every line of a terminal report has at most 80 columns, its figures are in one column, and two plans are
# compared differences first.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
export LC_ALL=C.UTF-8
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
job="--model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8 --json"
"$GPUHOURS" plan $job >"$folder/lora.json"
"$GPUHOURS" report "$folder/lora.json" | sed -n '/^  GPU hours/,/^$/p' | grep '^  [A-Z]' | grep -v '^.\{22\} [^ ]'
"$GPUHOURS" plan $job --method qlora >"$folder/qlora.json"
for documents in "$folder/lora.json" "$folder/lora.json $folder/qlora.json"; do
    "$GPUHOURS" report $documents >"$folder/text"
    echo "longer lines: $(sed 's/[^ -~]/x/g' "$folder/text" | grep -c '.\{81\}')"
done
sed -n '1,/^$/p' "$folder/text"
grep -n 'method ' "$folder/text" | head -1 | sed 's/  */ /g'
