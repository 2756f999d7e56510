# SPDX-License-Identifier: Apache-2.0
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
pack() {
    $GPUHOURS pack "$1" --tokenizer test/data/small_tokenizer.json --template chatml \
        --labels assistant --context 1024 --out "$folder/$2"
}
pack data/example.jsonl packed | sed "s|$folder/||"
for name in ids labels rows documents; do
    tail -c +11 "$folder/packed/$name.npy" | head -1 | sed 's/ *$//'
done
grep -E '"(tokens|labelled_tokens|rows|steps)"' "$folder/packed/index.json"
pack data/example.jsonl packed 2>&1 | sed "s|$folder/||"
echo '{"messages": 3}' > "$folder/bad.jsonl"
pack "$folder/bad.jsonl" other > /dev/null 2>&1
echo "exit $?"
ls "$folder"
pack data/example.jsonl slash/ > /dev/null
cmp "$folder/packed/ids.npy" "$folder/slash/ids.npy" && stat -c %a "$folder/slash"
