# SPDX-License-Identifier: Apache-2.0
# Names of files, in files and in ledgers may hold line ends: none of them begins a line of what is printed.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
forged='
  forged line'
count() { # WHAT: of all lines, and of those that begin as forged
    echo "$1: named $(grep -c 'forged line' "$work/out"), lines of its own $(grep -c '^ *forged line' "$work/out")"
}
cp test/data/tiny_model/rows.jsonl "$work/rows$forged.jsonl"
"$GPUHOURS" profile "$work/rows$forged.jsonl" --tokenizer test/data/tiny_model --out "$work/profile.json" >"$work/out" 2>&1
count "a data file"
"$GPUHOURS" profile "$work/none$forged" --out "$work/profile.json" >"$work/out" 2>&1
count "a file that does not exist"
printf '{"prompt\\n  forged line": "a", "completion": "b"}\n' >"$work/columns.jsonl"
"$GPUHOURS" profile "$work/columns.jsonl" --tokenizer test/data/tiny_model --out "$work/profile.json" >"$work/out" 2>&1
count "a column"
"$GPUHOURS" plan --name "a name$forged" --tokens 1M --model llama-3.1-8b --gpu h100 --ledger "$work/ledger" >/dev/null 2>&1
"$GPUHOURS" runs list --ledger "$work/ledger" >"$work/out"
"$GPUHOURS" runs show 1 --ledger "$work/ledger" >>"$work/out"
count "the name of a run"
"$GPUHOURS" runs export --ledger "$work/ledger" | sed 's/hf-peft/hf\\n  forged line/g; s/a name/a/' >"$work/theirs.json"
"$GPUHOURS" runs import "$work/theirs.json" --ledger "$work/imported" >/dev/null 2>&1
"$GPUHOURS" runs list --ledger "$work/imported" >"$work/out"
"$GPUHOURS" runs show 1 --ledger "$work/imported" >>"$work/out"
count "an imported run"
sed "2s/^p4d.24xlarge/\"p4d\\n  forged line\"/" test/data/hosts/skypilot/aws.csv >"$work/aws.csv"
"$GPUHOURS" show offers --import "$work/aws.csv" --as-of 2026-11-01 >"$work/out" 2>&1
count "an imported offer"
