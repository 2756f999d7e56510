# SPDX-License-Identifier: Apache-2.0
# The word "example" is the dataset that ships inside the program.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
case $GPUHOURS in /*) ;; *) GPUHOURS=$PWD/$GPUHOURS ;; esac
tokenizer=$PWD/test/data/small_tokenizer.json
profile() { $GPUHOURS profile "$1" --tokenizer "$tokenizer" --template chatml --json; }
profile data/example.jsonl | sed 's|data/example|example|' > "$folder/file.json"
(cd "$folder" && profile example | cmp - file.json && echo same)
