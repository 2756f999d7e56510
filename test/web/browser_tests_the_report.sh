# SPDX-License-Identifier: Apache-2.0
# A report's what-if in a headless Chromium, from file: no complaint, no request, the program's numbers.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
case $GPUHOURS in */san*/*) echo "sanitizers do not reach into the page"; exit 77 ;; esac
for tool in node chromium; do command -v $tool >/dev/null || { echo "there is no $tool"; exit 77; }; done
[ -d build/page/node_modules/axe-core ] || { echo "there is no axe-core; make check-page installs it"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
options="--model llama-3.1-8b --gpu h100-sxm --gpus 8 --epochs 2 --retries 1"
data="$folder/<img src=x onerror=alert(1)><script>alert(2)<!--.jsonl" # a "/" cannot stand in a name
cp data/example.jsonl "$data"
"$GPUHOURS" profile "$data" --model llama-3.1-8b --tokenizer built-in --quiet --out "$folder/profile.json" >/dev/null || exit 1
"$GPUHOURS" plan --profile "$folder/profile.json" $options --json >"$folder/plan.json" || exit 1
"$GPUHOURS" report "$folder/plan.json" "$folder/profile.json" --html "$folder/report.html" >/dev/null || exit 1
grep -q 'id="core-module"' "$folder/report.html" || { echo "this build's reports have no what-if"; exit 77; }
[ "$(wc -c <"$folder/report.html")" -lt 2000000 ] || { echo "the report is over 2 MB"; exit 1; }
node test/web/browser.mjs report "$GPUHOURS" "$folder/report.html"
