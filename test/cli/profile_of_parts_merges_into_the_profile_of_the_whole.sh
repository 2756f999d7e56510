# SPDX-License-Identifier: Apache-2.0
# All but the batches and the place of rows. Contexts know the order of the files only in one run, so the
# whole goes through --merge too.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
head -120 data/example.jsonl > "$folder/a.jsonl"
tail -n +121 data/example.jsonl > "$folder/b.jsonl"
profile() {
    $GPUHOURS profile "$@" --tokenizer test/data/small_tokenizer.json --template chatml --json
}
profile "$folder/a.jsonl" > "$folder/a.json" &&
profile "$folder/b.jsonl" > "$folder/b.json" &&
profile "$folder/a.jsonl" "$folder/b.jsonl" > "$folder/both.json" &&
$GPUHOURS profile --merge "$folder/both.json" --json > "$folder/whole.json" &&
$GPUHOURS profile --merge "$folder/a.json" "$folder/b.json" --json > "$folder/merged.json" || exit 1
known() { sed -e '/"batches": {/,/^  }/d' -e '/duplicate/d' -e '/"look_at": {/,$d' "$1"; }
known "$folder/whole.json" > "$folder/x"
known "$folder/merged.json" > "$folder/y"
cmp "$folder/x" "$folder/y" && grep -c . "$folder/x" > /dev/null && echo equal

# The parts know how many positions their model has, whichever way they are merged.
text=$(seq -s ' ' 3000)
for row in 1 2 3 4; do printf '{"text":"%s"}\n' "$text"; done > "$folder/long.jsonl"
recommended() { grep -h -e '"recommended_context"' -e '"model_positions"' "$@"; }
$GPUHOURS profile "$folder/long.jsonl" --model gpt2 --out "$folder/long.json" --quiet > "$folder/said"
$GPUHOURS profile "$folder/long.jsonl" --model gpt2 --units "$folder/units" --shard 1/1 --quiet > "$folder/said"
$GPUHOURS profile "$folder/long.jsonl" --tokenizer built-in --out "$folder/none.json" --quiet > "$folder/said"
recommended "$folder/long.json"
$GPUHOURS profile --merge "$folder/long.json" "$folder/long.json" --json > "$folder/merged.json"
recommended "$folder/merged.json"
$GPUHOURS profile --merge "$folder/units" --json > "$folder/merged.json"
recommended "$folder/merged.json"
$GPUHOURS profile --merge "$folder/none.json" --model gpt2 --json > "$folder/merged.json"
recommended "$folder/merged.json"
