# SPDX-License-Identifier: Apache-2.0
# Names in files and of files reach standard output as text: no control, no character that turns it.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
escape=$(printf '\033')
odd() { LC_ALL=C grep -c "$escape\|$(printf '\302\233')\|$(printf '\342\200\256')"; }
mkdir "$work/model"
sed 's|{|{"_name_or_path": "evil\\u001b[2J\\u009b2J\\u202e\\nforged line",|;' test/data/tiny_model/config.json |
    awk 'NR == 1 || !/_name_or_path/' >"$work/model/config.json"
"$GPUHOURS" plan --quiet --model "$work/model" --tokens 1M --gpu h100 >"$work/out" 2>&1
grep -c evil "$work/out"
grep -c '^ *forged' "$work/out"
odd <"$work/out"
name="$work/rows$escape[2J$(printf '\302\233').jsonl"
cp test/data/tiny_model/rows.jsonl "$name"
"$GPUHOURS" profile "$name" --out "$work/profile.json" >"$work/out" 2>&1
odd <"$work/out"
"$GPUHOURS" profile "$work/none$escape[2J" --out "$work/profile.json" 2>&1 | odd
true
