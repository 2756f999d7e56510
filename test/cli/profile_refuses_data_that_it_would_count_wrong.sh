# SPDX-License-Identifier: Apache-2.0
# A link to a file that is gone, a column that a header has twice, text that is not UTF-8, fields that nothing reads, and standard
# input that is named twice.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
mkdir "$folder/cache"
printf 'one line\n' > "$folder/cache/a.txt"
ln -s ../blobs/0123 "$folder/cache/b.jsonl"
ln -s ../blobs/4567 "$folder/cache/README.md"
printf 'text,id,text\none,1,two\n' > "$folder/twice.csv"
printf 'fine\ncaf\351\n' > "$folder/latin.txt"
echo '{"prompt": "Why?", "completion": "Because.", "context": "A story of some length."}' > "$folder/context.jsonl"
count() { $GPUHOURS profile "$@" --tokenizer test/data/small_tokenizer.json --template chatml --ledger off --quiet --json 2>&1 | grep '^  "tokens"\|^gpuhours:' | sed "s|$folder/||g"; }
count "$folder/cache"
rm "$folder/cache/b.jsonl"
count "$folder/cache"
count "$folder/twice.csv"
count "$folder/latin.txt"
count "$folder/context.jsonl"
count "$folder/context.jsonl" --fields input=context
count "$folder/context.jsonl" --fields history=context
count "$folder/context.jsonl" --fields system=nosuch
echo '{"text": "one"}' | count - -
count - < /dev/null
