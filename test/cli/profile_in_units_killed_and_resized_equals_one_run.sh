# SPDX-License-Identifier: Apache-2.0
# Work units of files of every kind, cut at odd places, counted by two processes at once that are killed, by three, by one:
# the merged profile and the lengths are those of one run, byte for byte.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
example=$PWD/data/example.jsonl tokenizer=$PWD/test/data/small_tokenizer.json
cd "$work" || exit
mkdir data
cat "$example" "$example" >data/a-duplicates.jsonl
{ printf '\357\273\277'; sed 's/$/\r/' "$example"; printf '\n\n\n{"broken": \n'; head -c 3000 "$example"; } >data/b-marked.jsonl
head -30 "$example" | gzip -n >data/c-packed.jsonl.gz
{ echo 'instruction,output'; for i in 1 2 3 4 5 6 7 8 9; do printf '"say ""%s""\nin two lines","%s %s"\n' $i $i $i; done; } >data/d-cells.csv
{ echo '['; for i in 1 2 3 4 5 6 7 8; do printf '{"text": "item %s"},\n' $i; done; echo '{"text": "last"}]'; } >data/e-list.json
{ for i in 1 2 3 4 5 6 7 8 9; do printf 'line %s\n\n' $i; done; printf 'no line end'; } >data/f-lines.txt
asked="$program profile data --tokenizer $tokenizer --template chatml --bad-rows skip --ledger off --quiet"
$asked --out one.json --lengths one.csv >/dev/null || exit
kills=0
for unit in 1777 20011; do
    share() { exec $asked --units "counted-$unit" --unit-size $unit --shard "$1"; }
    for moment in 0.02 0.05 0.09 0.14; do
        share 1/2 >/dev/null 2>&1 & first=$!
        share 2/2 >/dev/null 2>&1 & second=$!
        sleep $moment
        kill -9 $first 2>/dev/null && kills=$((kills + 1))
        sleep $moment
        kill -9 $second 2>/dev/null && kills=$((kills + 1))
        wait $first $second 2>/dev/null
    done
    (share 2/3) >/dev/null
    rm -f "$(ls -d counted-$unit/*.unit | head -1)"
    "$program" profile --merge counted-$unit --out merged.json >/dev/null 2>said && echo "merged too early"
    echo "exit $?: $(sed 's/: [0-9]* of .*)/: …/' said)"
    touch -d '2 hours ago' counted-$unit/left.tmp # by a worker that was killed
    (share 1/1) >done || exit
    sed 's/: [0-9]* counted now, [0-9]* were there/: …/' done
    "$program" profile --merge counted-$unit --out merged.json --lengths merged.csv --quiet >/dev/null
    cmp one.json merged.json && cmp one.csv merged.csv && echo "$unit: equal to one run"
    [ ! -e counted-$unit/left.tmp ] && echo "left by killed workers: nothing"
done
[ $kills -ge 4 ] && echo "killed" # how many of them were still alive depends on the machine
rm counted-20011/units.json
$asked --units counted-20011 --unit-size 20011 --out again.json >/dev/null && cmp one.json again.json && echo "resumed and merged at once"
