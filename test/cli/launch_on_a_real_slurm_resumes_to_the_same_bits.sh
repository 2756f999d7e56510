# SPDX-License-Identifier: Apache-2.0
# The Slurm script runs under slurmctld and slurmd, started here on loopback: once straight through,
# and once ended by its time limit, queued again and resumed. Both end with the same adapter.
. test/cli/slurm.inc

# --- two jobs, by the file that launch writes ---
"$program" plan $tiny/rows.jsonl --model $tiny --labels completion --stack native --gpu h100 --gpus 1 --context 64 \
    --micro-batch 1 --global-batch 2 --epochs 40 --precision fp32 --search off --json >"$work/plan.json"
cd "$work/jobs" || exit
for name in straight stopped; do
    "$program" launch --plan "$work/plan.json" --to slurm --output "$PWD/$name" --job "$name" --quiet \
        --sbatch '--cpus-per-task=1 --mem=0' -- gpuhours train \
        --device cpu --random-weights --model $tiny --data $tiny/rows.jsonl --labels completion --rank 4 \
        --context 64 --accumulation 2 --epochs 40 --rate 0.01 --save-every 0 --out "$PWD/$name" >$name.sh
done
state() { scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
is_over() { case $(state "$1") in COMPLETED | FAILED | CANCELLED | TIMEOUT) ;; *) false ;; esac; }
straight=$(sbatch --parsable straight.sh)
[ "$straight" ] && until_true 200 is_over "$straight" || { echo "the job does not end"; cat straight-*.log; exit; }
echo "straight: $(state "$straight")"

# Slurm looks at limits twice a minute: the trainer is held at its tenth step until it has been told.
job=$(sbatch --parsable --time=1 --signal=B:TERM@30 stopped.sh)
trainer_of() { # the process with the words train and our folder, but not its watch
    for file in $(grep -alzx "$PWD/stopped" /proc/[0-9]*/cmdline 2>/dev/null); do
        [ "$(sed -zn 2p "$file" 2>/dev/null | tr -d '\0')" = train ] && basename "$(dirname "$file")" && return
    done
    false
}
is_held() { grep -q '"step":9,' stopped/metrics.jsonl 2>/dev/null && trainer=$(trainer_of) && kill -STOP $trainer 2>/dev/null; }
is_told() { grep -q '^ShdPnd:.*[4567cdef]...$' "/proc/$trainer/status" 2>/dev/null; }
until_true 200 is_held || { echo "the job does not come to its tenth step"; cat stopped-*.log; exit; }
until_true 400 is_told && echo "the time limit reached the trainer as SIGTERM"
kill -CONT $trainer
is_queued() { [ "$(state "$job")" = PENDING ]; }
until_true 100 is_queued && echo "queued again: Restarts=$(scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p')"
# Slurm waits two minutes before it starts a job again, so that its old credential is surely gone; seconds do here.
goes_on() { scontrol update JobId="$job" StartTime=now+4 TimeLimit=10 2>/dev/null; }
until_true 50 goes_on && until_true 300 is_over "$job"
echo "stopped: $(state "$job")"
is_over "$job" && [ "$(state "$job")" = COMPLETED ] || cat stopped-"$job".log "$work/slurmctld.log"
grep -c 'from step' stopped-"$job".log
cmp straight/adapter_model.safetensors stopped/adapter_model.safetensors && echo "same adapter"
grep -h '"complete"' straight/run.json stopped/run.json
trainer_of || echo "nothing is left running"
