# SPDX-License-Identifier: Apache-2.0
# A byte order mark and the line ends of Windows are no text; packed files are unpacked; UTF-16 is refused by name.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
ids() { $GPUHOURS tokenize --tokenizer test/data/tokenizers/gpt2.json "$1" 2>&1 | sed "s|$folder/||"; }
printf 'the quick\nfox\n' > "$folder/plain.txt"
printf '\357\273\277the quick\r\nfox\r\n' > "$folder/windows.txt"
printf '\377\376t\000h\000' > "$folder/utf16.txt"
gzip -k "$folder/plain.txt"
for file in plain.txt windows.txt plain.txt.gz utf16.txt; do
    echo "$file"
    ids "$folder/$file"
done
$GPUHOURS tokenize --tokenizer test/data/tokenizers/gpt2.json --count - < "$folder/windows.txt"
