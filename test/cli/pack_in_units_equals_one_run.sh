# SPDX-License-Identifier: Apache-2.0
# Units tokenized by two processes, one of them killed, and packed without reading the data again: the folder has the bytes of one run.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
example=$PWD/data/example.jsonl tokenizer=$PWD/test/data/small_tokenizer.json
cd "$work" || exit
mkdir data
cat "$example" "$example" >data/a.jsonl
{ echo '{"broken": '; head -40 "$example"; } >data/b.jsonl
asked="$program pack data --tokenizer $tokenizer --template chatml --bad-rows skip --ledger off --quiet --context 512"
$asked --out one >/dev/null || exit
$asked --units tokens --unit-size 30KB --shard 1/2 >/dev/null & first=$!
$asked --units tokens --unit-size 30KB --shard 2/2 >/dev/null & second=$!
sleep 0.1
kill -9 $first 2>/dev/null
wait $first $second 2>/dev/null
$asked --units tokens --unit-size 30KB --shard 1/3 | sed 's/: [0-9]* tokenized now, .* are in/: … are in/'
$asked --units tokens --unit-size 30KB --shard 1/1 >/dev/null
# The rows are gone, all but the first: who read them again would fail.
touch -r data/a.jsonl date
bytes=$(wc -c <data/a.jsonl) first=$(head -1 data/a.jsonl | wc -c)
head -c $((bytes - first)) /dev/zero | tr '\0' 'x' | dd of=data/a.jsonl oflag=seek_bytes bs=64K seek="$first" conv=notrunc 2>/dev/null
touch -r date data/a.jsonl
$asked --units tokens --unit-size 30KB --out packed >/dev/null
for file in ids.npy labels.npy rows.npy documents.npy index.json; do cmp one/$file packed/$file && echo "$file: equal"; done
ls packed | wc -l
$asked --units tokens --unit-size 30KB --batching packed --context 256 --out other >/dev/null && echo "another context: no unit is counted again"
cat "$example" "$example" >data/a.jsonl
touch -r date data/a.jsonl
$asked --out short --context 256 >/dev/null && cmp short/ids.npy other/ids.npy && echo "equal"
printf 'x' | dd of="$(ls tokens/*.ids | head -1)" bs=1 seek=100 conv=notrunc 2>/dev/null
$asked --units tokens --unit-size 30KB --out damaged 2>&1 | sed 's/[0-9a-f]\{32\}/KEY/'
