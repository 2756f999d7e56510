# SPDX-License-Identifier: Apache-2.0
# The same warnings as those of profile, on standard error, with --quiet too, and in the document,
# which also says what was lost. Packed from units they are the same.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cat > "$folder/rows.jsonl" <<'ROWS'
{"id": 1, "other": [{"role": "user", "content": "A text that is not read at all, as another column has the conversation."}], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "reasoning_content": "hm", "content": "a"}]}
{"id": 2, "other": "Neither is this text, which is about as long as it is.", "messages": [{"role": "user", "content": "A question that is longer than the context of the packed rows, so that it is cut or left out."}, {"role": "assistant", "content": "b"}]}
ROWS
warnings() { sed -n '/"warnings"/,/^  \]/p' "$@"; }
asked="$folder/rows.jsonl --tokenizer test/data/small_tokenizer.json --template chatml --context 32 --quiet"
$GPUHOURS profile $asked --json > "$folder/profile.json"
$GPUHOURS pack $asked --out "$folder/packed" --json > "$folder/packed.json" 2> "$folder/said"
cat "$folder/said"
$GPUHOURS pack $asked --out "$folder/words" 2>&1 > /dev/null | cmp - "$folder/said" && echo "without --json: the same"
grep -E '"(examples|cut_examples|dropped_examples|lost_tokens)"' "$folder/packed.json"
warnings "$folder/packed.json"
warnings "$folder/profile.json" > "$folder/wanted"
warnings "$folder/packed.json" | cmp - "$folder/wanted" && echo "those of profile"
cmp "$folder/packed.json" "$folder/packed/index.json" && echo "index.json has them too"
$GPUHOURS pack $asked --units "$folder/units" --out "$folder/again" > /dev/null 2>&1
cmp "$folder/packed.json" "$folder/again/index.json" && echo "in units too"
