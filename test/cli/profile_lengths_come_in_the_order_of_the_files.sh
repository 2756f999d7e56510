# SPDX-License-Identifier: Apache-2.0
# A CSV row per example, the same with any number of threads; sums are those of the profile. Of a
# folder with a train split the test split is left out, and a table may come from standard input.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
profile() { $GPUHOURS profile "$@" --tokenizer test/data/small_tokenizer.json --template chatml --labels assistant; }
mkdir -p "$folder/data"
head -n 40 data/example.jsonl > "$folder/data/train-00000-of-00001.jsonl"
tail -n 5 data/example.jsonl > "$folder/data/test-00000-of-00001.jsonl"
profile "$folder" --lengths "$folder/one.csv" --threads 1 --out "$folder/p.json" 2>&1 > "$folder/text" | sed "s|$folder|DIR|"
sed -n 's/  data  *\([^,]*\),.*/\1/p' "$folder/text"
profile "$folder/data/train-00000-of-00001.jsonl" --lengths "$folder/two.csv" --threads 2 --out "$folder/q.json" > "$folder/text"
cmp "$folder/one.csv" "$folder/two.csv" && head -n 4 "$folder/one.csv"
awk -F, 'NR > 1 { t += $1; l += $2 } END { print NR - 1, t, l }' "$folder/one.csv"
grep -E '^  "(examples|tokens|labelled_tokens)"' "$folder/p.json"
printf 'question,answer\n"Who, me?",You.\n' | profile - --lengths "$folder/three.csv" --json | grep -E '^  "(examples|format)"'
cat "$folder/three.csv"
mkdir "$folder/packed" && cp data/example.jsonl "$folder/packed" && printf 'BZh91AY' > "$folder/packed/more.jsonl.bz2"
profile "$folder/packed" --json 2>&1 | sed "s|$folder|DIR|"
profile "$folder/data" --lengths "$folder/no/such.csv" --out "$folder/p.json" 2>&1 > /dev/null | sed "s|$folder|DIR|" | tail -n 1
$GPUHOURS profile --merge "$folder/p.json" --lengths x.csv 2>&1 || true
