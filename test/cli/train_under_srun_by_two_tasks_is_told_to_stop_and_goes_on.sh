# SPDX-License-Identifier: Apache-2.0
# Two tasks of srun share a base under slurmctld and slurmd, started here on loopback. Slurm's SIGTERM reaches both, they save
# and are queued again; what they end with is what two ranks end with that nobody stopped. SIGTERM comes from scancel, or, with
# STOPPED_BY=limit, before the job's time limit, which takes Slurm up to a minute.
[ "$(nproc)" -ge 2 ] || { echo "one processor"; exit 77; }
. test/cli/slurm.inc
cd "$work/jobs" || exit
words="--device cpu --random-weights --model $tiny --data $tiny/rows.jsonl --labels completion --rank 4 --context 64
    --accumulation 2 --epochs 40 --rate 0.01 --save-every 0 --ledger off --parallel fsdp"
"$program" train $words --ranks 2 --out straight --quiet >/dev/null 2>&1
cat >job.sh <<END
#!/bin/sh
srun -n 2 gpuhours train $(echo $words) --out $PWD/stopped || scontrol requeue \$SLURM_JOB_ID
END
state() { scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
is_over() { case $(state "$1") in COMPLETED | FAILED | CANCELLED | TIMEOUT) ;; *) false ;; esac; }
[ "${STOPPED_BY:-scancel}" = limit ] && limit="--time=1 --signal=TERM@30"
job=$(sbatch --parsable $limit --ntasks=2 --requeue --open-mode=append --output=stopped.log job.sh)
is_at_work() { grep -q '"step":9,' stopped/metrics.jsonl 2>/dev/null; }
until_true 200 is_at_work || { echo "the job does not come to its ninth step"; cat stopped.log; exit; }
if [ "$limit" ]; then # the ranks are held until both have been told, which wakes them
    ranks=$(grep -alzx "$PWD/stopped" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3 | while read -r pid; do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = gpuhours ] && echo "$pid"; done)
    kill -STOP $ranks
    are_held() { grep -q '^State:.*stopped' $(printf '/proc/%s/status ' $ranks) 2>/dev/null; }
    are_told() { ! are_held; }
    until_true 20 are_held && until_true 700 are_told || echo "the time limit does not reach the ranks"
else
    scancel --signal=TERM "$job"
fi
is_queued() { [ "$(state "$job")" = PENDING ]; }
until_true 150 is_queued && echo "stopped and queued again"
goes_on() { scontrol update JobId="$job" StartTime=now+2 ${limit:+TimeLimit=10} 2>/dev/null; }
until_true 50 goes_on && until_true 300 is_over "$job"
echo "then: $(state "$job")"
[ "$(state "$job")" = COMPLETED ] || cat stopped.log "$work/slurmctld.log"
grep -c 'stopped at step .* and saved' stopped.log
grep -c 'from step' stopped.log
cmp straight/adapter_model.safetensors stopped/adapter_model.safetensors && echo "same adapter"
