# SPDX-License-Identifier: Apache-2.0
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
gzip -c data/example.jsonl > "$folder/a.jsonl.gz"
printf 'prompt,completion\n"How, then?",Well.\nWhy?,"Because, and ""so""."\n' > "$folder/b.csv"
printf 'one line\n\nthree lines\n' > "$folder/c.txt"
for file in "$folder/a.jsonl.gz" "$folder/b.csv" "$folder/c.txt"; do
    $GPUHOURS profile "$file" --tokenizer test/data/small_tokenizer.json --template chatml --json |
        grep -E '^  "(examples|tokens|empty_examples|format)"'
done
$GPUHOURS profile - --tokenizer test/data/small_tokenizer.json --template chatml --json \
    < data/example.jsonl | grep -E '^  "(examples|tokens)"'
echo "-- a pipe has the size that was read"
head -n 3 data/example.jsonl | $GPUHOURS profile - --tokenizer test/data/small_tokenizer.json --template chatml 2>/dev/null | grep -o 'in 1 file, [0-9.]* [KMi]*B'
head -c 3000 /dev/zero | tr '\0' 'a' | $GPUHOURS profile - --tokenizer test/data/small_tokenizer.json --json 2>/dev/null | grep '"bytes"'
echo "-- a table is read as one however it is packed"
for packing in gzip xz bzip2; do
    $packing -c "$folder/b.csv" > "$folder/b.csv.$packing"
done
mv "$folder/b.csv.gzip" "$folder/b.csv.gz" && mv "$folder/b.csv.bzip2" "$folder/b.csv.bz2"
for file in "$folder/b.csv.gz" "$folder/b.csv.xz" "$folder/b.csv.bz2"; do
    $GPUHOURS profile "$file" --tokenizer test/data/small_tokenizer.json --template chatml --json 2>/dev/null | grep '^  "tokens"'
done
