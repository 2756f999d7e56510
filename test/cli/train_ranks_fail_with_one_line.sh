# SPDX-License-Identifier: Apache-2.0
# What goes wrong with ranks is told once, by the rank where it went wrong, and ends all of them.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common="--random-weights --model test/data/tiny_model --quiet --labels completion --context 64 --rank 4 --ledger off --out $work/out"
rows=test/data/tiny_model/rows.jsonl
show() { sed "s|$work|WORK|g; s|127.0.0.1:[0-9]*|127.0.0.1:PORT|" "$1"; }
try() {
    timeout 60 "$GPUHOURS" train $common "$@" >"$work/said" 2>&1
    code=$?
    show "$work/said"
    echo "exit $code"
}
echo "--- on every rank"
try --data "$work/missing.jsonl" --ranks 3
try --data $rows --accumulation 2 --ranks 3
try --data $rows --ranks 5000

# By hand, as another launcher would: each with its own words.
export GPUHOURS_GROUP_SECRET=secret GPUHOURS_GROUP_PATIENCE=20 MASTER_ADDR=127.0.0.1
export GPUHOURS_GROUP_PORT=$((20000 + $$ % 12000))
as() { # RANK SIZE WORDS...
    rank=$1 size=$2
    shift 2
    RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$rank timeout 60 "$GPUHOURS" train $common "$@" >"$work/said-$rank" 2>&1
    echo "exit $?" >>"$work/said-$rank"
}
both() {
    wait
    for rank in 0 1; do show "$work/said-$rank" | grep -v '^  ' | sed "s/^/$rank: /"; done
}
echo "--- on one rank alone"
as 0 2 --data $rows --accumulation 2 & as 1 2 --data "$work/missing.jsonl" --accumulation 2 & both
echo "--- another secret"
as 0 2 --data $rows --accumulation 2 & first=$!
GPUHOURS_GROUP_PATIENCE=1
GPUHOURS_GROUP_SECRET=guess
as 1 2 --data $rows --accumulation 2
show "$work/said-1"
GPUHOURS_GROUP_SECRET=secret
GPUHOURS_GROUP_PATIENCE=20
as 1 2 --data $rows --accumulation 2 # the right one is still waited for
show "$work/said-1" | grep -v '^  '
wait $first
echo "--- one does not come"
GPUHOURS_GROUP_PATIENCE=1
as 0 2 --data $rows --accumulation 2
show "$work/said-0"
echo "--- ranks in ranks"
as 0 2 --data $rows --ranks 2
show "$work/said-0"
