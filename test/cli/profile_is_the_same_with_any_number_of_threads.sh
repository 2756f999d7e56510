# SPDX-License-Identifier: Apache-2.0
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat data/example.jsonl; done > "$folder/many.jsonl"
for threads in 1 2 7; do
    $GPUHOURS profile "$folder/many.jsonl" --tokenizer test/data/small_tokenizer.json \
        --template chatml --labels assistant --threads $threads --json > "$folder/$threads.json" || exit 1
done
cmp "$folder/1.json" "$folder/2.json" && cmp "$folder/1.json" "$folder/7.json" &&
    grep -E '"(examples|tokens|labelled_tokens|duplicate_examples)"' "$folder/1.json" | head -4
