# SPDX-License-Identifier: Apache-2.0
# Ranks of mpirun and of srun count and tokenize their units without being told; what they make together is what one process makes.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
example=$PWD/data/example.jsonl tokenizer=$PWD/test/data/small_tokenizer.json
cd "$work" || exit
cp "$example" a.jsonl
asked() { "$program" "$1" a.jsonl --tokenizer "$tokenizer" --template chatml --ledger off --quiet $2; }
asked profile "--out one.json" >/dev/null
asked pack "--context 256 --out one" >/dev/null
units="--units counted --unit-size 9KB" tokens="--units tokens --unit-size 9KB --context 256"
for rank in 0 1 2; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 asked profile "$units" | sed -n 1,2p
    SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=3 asked pack "$tokens --out never" | head -1
done
"$program" profile --merge counted --out merged.json --ledger off >/dev/null && cmp one.json merged.json && echo "profile: equal"
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3 asked pack "$tokens --out packed --shard all" >/dev/null && cmp one/ids.npy packed/ids.npy && echo "pack: equal"
ls -d never 2>/dev/null
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 asked profile "--out all.json" 2>&1 >/dev/null
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 asked profile "--out all.json" 2>&1 >/dev/null
# A packed file that is far larger than a unit: said once, by the first rank.
gzip -n <a.jsonl >b.jsonl.gz
for rank in 0 1; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 "$program" profile b.jsonl.gz --tokenizer "$tokenizer" --template chatml --ledger off \
        --units packed-units --unit-size 2KB 2>&1 | sed 's/ (.* KiB)/ (SIZE)/' | head -2
done
