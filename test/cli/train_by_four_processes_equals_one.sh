# SPDX-License-Identifier: Apache-2.0
# The same global batch in one process and, by MPI, in four: losses within 1e-6.
command -v mpirun >/dev/null || { echo "mpirun is not installed"; exit 77; }
ldd "$GPUHOURS" | grep -q libmpi || { echo "this build is without MPI"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked="train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --quiet \
    --labels completion --method full --context 64 --accumulation 4 --epochs 2 --rate 0.003 --held-out 10%"
"$GPUHOURS" $asked --out "$work/one" >/dev/null
OMP_NUM_THREADS=1 timeout 60 \
    mpirun --allow-run-as-root --oversubscribe -q -n 4 "$GPUHOURS" $asked --out "$work/four" >/dev/null 2>"$work/said" ||
    cat "$work/said"
grep -q MPI "$work/said" && cat "$work/said"
wc -l <"$work/four/metrics.jsonl"
paste "$work/one/metrics.jsonl" "$work/four/metrics.jsonl" | awk -F'"loss":' '
    { a = $2 + 0; b = $3 + 0; d = (a - b) / a; if (d < 0) d = -d; if (d > worst) worst = d }
    END { print worst < 1e-6 ? "same losses" : "losses differ by " worst }'
