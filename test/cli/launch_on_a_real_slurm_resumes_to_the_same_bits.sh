# SPDX-License-Identifier: Apache-2.0
# The Slurm script runs under slurmctld and slurmd, started here on loopback: once straight through,
# and once ended by its time limit, queued again and resumed. Both end with the same adapter.
for program in slurmctld slurmd sbatch munged mungekey; do
    command -v $program >/dev/null || PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
        { echo "$program is not installed"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "slurmd needs root"; exit 77; }
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
daemons=
finish() { # ends what was started here, by its number
    [ -z "$job" ] || scancel --quiet "$job" "$straight" 2>/dev/null
    for pid in $daemons; do kill "$pid" 2>/dev/null; done
    for pid in $daemons; do wait "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap finish EXIT
cannot() { echo "$1"; exit 77; }
until_true() { # TENTHS COMMAND...
    tenths=$1; shift
    for i in $(seq "$tenths"); do "$@" && return; sleep 0.1; done
    return 1
}

# --- a cluster of one node, whose GPU is a file ---
port=$((20000 + $$ % 20000))
mkdir "$work/state" "$work/spool" "$work/jobs"
chmod 755 "$work"
: >"$work/gpu0"
cat >"$work/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$work/munge.sock
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
GresTypes=gpu
ReturnToService=2
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=$(nproc) Gres=gpu:1
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
echo "NodeName=$(hostname) Name=gpu File=$work/gpu0" >"$work/gres.conf"
printf 'CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n' >"$work/cgroup.conf"
export SLURM_CONF="$work/slurm.conf"
mungekey --create --keyfile "$work/munge.key" || cannot "no key for munge"
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.sock" --pid-file="$work/munged.pid" \
    --seed-file="$work/munge.seed" --log-file="$work/munged.log" >/dev/null 2>&1 & daemons="$daemons $!"
until_true 50 [ -S "$work/munge.sock" ] || cannot "munged does not start here"
slurmctld -D >"$work/slurmctld.log" 2>&1 & daemons="$! $daemons"
slurmd -D >"$work/slurmd.log" 2>&1 & daemons="$! $daemons"
is_up() { [ "$(sinfo -h -o %T 2>/dev/null)" = idle ]; }
until_true 100 is_up || cannot "slurmctld and slurmd do not start here"

# --- two jobs, by the file that launch writes ---
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
export PATH="$(dirname "$program"):$PATH" SBATCH_EXPORT=ALL
tiny=$PWD/test/data/tiny_model
"$program" plan $tiny/rows.jsonl --model $tiny --labels completion --stack native --gpu h100 --gpus 1 --context 64 \
    --micro-batch 1 --global-batch 2 --epochs 40 --precision fp32 --search off --json >"$work/plan.json"
cd "$work/jobs" || exit
for name in straight stopped; do
    "$program" launch --plan "$work/plan.json" --to slurm --output "$PWD/$name" --job "$name" --quiet -- gpuhours train \
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
