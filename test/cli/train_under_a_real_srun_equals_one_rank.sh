# SPDX-License-Identifier: Apache-2.0
# Two tasks of srun, under slurmctld and slurmd started here, train as one rank does; a batch script with two tasks
# that starts train without srun is a single rank.
. test/cli/slurm.inc
asked="train --device cpu --random-weights --model $tiny --data $tiny/rows.jsonl --quiet --labels completion --context 64
    --accumulation 4 --epochs 2 --rate 0.003 --rank 4 --ledger off --out $work"
"$program" $asked/one >/dev/null || echo "one rank cannot train"
two() { timeout 60 srun --quiet --overcommit --ntasks 2 --mpi none "$@"; }
two "$program" $asked/two >/dev/null 2>"$work/said" || cat "$work/said" "$work/slurmctld.log"
paste "$work/one/metrics.jsonl" "$work/two/metrics.jsonl" | awk -F'"loss":' '
    { a = $2 + 0; b = $3 + 0; d = (a - b) / a; if (d < 0) d = -d; if (d > worst) worst = d }
    END { print NR " steps, " (worst < 1e-6 ? "same losses" : "losses differ by " worst) }'
SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=1 timeout 30 "$program" $asked/batch >/dev/null && echo "a batch script trains alone"
