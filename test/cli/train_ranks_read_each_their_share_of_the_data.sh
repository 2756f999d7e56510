# SPDX-License-Identifier: Apache-2.0
# Each rank reads its share of the files, lines cut anywhere and a packed file whole; all bytes once. The order of
# training is that of one rank, which read all: the same losses, and a checkpoint of one goes on with four.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=test/data/tiny_model/rows.jsonl
mkdir "$work/data"
cat $rows $rows >"$work/data/a.jsonl"
gzip -nc $rows >"$work/data/b.jsonl.gz"
: >"$work/data/c.jsonl"
{ echo prompt,completion; echo 'count from 3: ,"3 4 5"'; echo 'count from 4: ,4 5 6'; } >"$work/data/d.csv"
head -7 $rows >"$work/data/e.jsonl"
asked="train --random-weights --model test/data/tiny_model --labels completion --context 64 --accumulation 12 --epochs 2 \
    --rate 0.003 --rank 4 --ledger off"
run() { # RANKS DATA OUT
    "$GPUHOURS" $asked --ranks "$1" --data "$2" --out "$work/$3" --save-every 1 >"$work/said" 2>"$work/failed" || sed "s|$work/||" "$work/failed"
    sed -n 's/^  \(read \|data \)  */\1/p' "$work/said"
}
losses() { sed 's/.*"loss":\([0-9.]*\).*/\1/' "$work/$1/metrics.jsonl" | cut -c1-8 | tr '\n' ' '; }
run 1 "$work/data" one
for ranks in 2 3 4; do
    run $ranks "$work/data" by-$ranks
    [ "$(losses one)" = "$(losses by-$ranks)" ] && echo "$ranks ranks: the losses of one"
done
echo "the files have $(cat "$work"/data/* | wc -c) bytes"
run 4 "$work/data" one # another number of ranks reads the same data: the checkpoint is of this run
usual=$asked
asked="$asked --template plain --max-steps 1"
run 2 example example # no file: rank 0 reads it
asked=$usual
# The rank that finds a bad row names its line in the whole file.
{ cat $rows $rows; echo '{"prompt": 7'; } >"$work/bad.jsonl"
run 2 "$work/bad.jsonl" bad
# Hosts that see other files would train on other rows: here two processes that are given them.
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 GPUHOURS_GROUP_SECRET=test GPUHOURS_GROUP_PORT=$((20000 + $$ % 12000))
RANK=1 "$GPUHOURS" $asked --data "$work/bad.jsonl" --out "$work/other" >/dev/null 2>"$work/second" &
RANK=0 "$GPUHOURS" $asked --data $rows --out "$work/other" 2>&1
wait
cat "$work/second"
