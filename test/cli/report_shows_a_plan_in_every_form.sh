# SPDX-License-Identifier: Apache-2.0
# One plan and a profile as a page, text, Markdown, a table and JSON; the page is one small file.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
"$GPUHOURS" profile example --quiet --json >"$folder/profile.json"
"$GPUHOURS" plan example --quiet --model llama-3.1-8b --gpu h100 --gpus 8 --json >"$folder/plan.json"
"$GPUHOURS" hosts --plan "$folder/plan.json" --gpu h100 --provider aws --today 2026-11-15 --json \
    >"$folder/hosts.json"
all="$folder/plan.json $folder/profile.json $folder/hosts.json"
"$GPUHOURS" report $all --html "$folder/page.html"
"$GPUHOURS" report $all --html - | cmp - "$folder/page.html" && echo "the same on standard output"
[ "$(wc -c <"$folder/page.html")" -lt 2000000 ] && echo "under 2 MB"
grep -o '<section id="[a-z-]*"' "$folder/page.html" | grep -v what-if # which not every build has
grep -c 'default-src &#39;none&#39;' "$folder/page.html"
echo "external references: $(grep -oE '(src|href)="[^#]' "$folder/page.html" | wc -l)"
"$GPUHOURS" report $all >"$folder/text"
echo "escapes in a pipe: $(grep -c "$(printf '\033')" "$folder/text")"
"$GPUHOURS" report $all --markdown | grep '^#'
"$GPUHOURS" report $all --csv | sed -n 's/^"\(kind\|version\|gpu_hours.p50\|examples\|tokenizer.name\)",/&/p' | cut -d, -f1
"$GPUHOURS" report $all --json | grep -c '"kind": "'
