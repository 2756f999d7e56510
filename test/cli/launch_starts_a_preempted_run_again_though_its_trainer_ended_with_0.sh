# SPDX-License-Identifier: Apache-2.0
# A trainer that saves when it is told to stop and ends with 0 is started again, with watch around it and without;
# srun, scancel and scontrol are stand-ins.
. test/cli/launch.inc
"$program" plan --model llama-3.2-1b --tokens 2M --gpu h100 --stack hf-peft --json --quiet >plan.json
cat >train.sh <<'END'
trap 'echo saved; exit 0' TERM
echo started >&2
for i in $(seq ${STEPS:-300}); do sleep 0.1; done
END
mkdir bin with without
for program_of in bash cat cut date dirname env grep head mkdir nproc ps rm sed seq sh sleep tail timeout tr true wc; do
    ln -s "$(command -v $program_of)" without/$program_of
done
ln -s "$program" with/gpuhours
printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\necho $$ >srun.pid\nexec "$@"\n' >bin/srun
printf '#!/bin/sh\nkill -TERM "$(cat srun.pid)"\n' >bin/scancel
printf '#!/bin/sh\necho "queued again"\n' >bin/scontrol
chmod +x bin/*
lines() { # of the shell, in a file of YAML
    sed -n '/^ *- |$/,/^ *exec /p' "$1" | sed 1d
}
stop() { # WORDS...: runs job.sh, tells it to stop once the trainer has started
    rm -f said # of the run before
    "$@" bash job.sh >said 2>&1 &
    for i in $(seq 300); do grep -qs started said && break; sleep 0.1; done
    kill -TERM $! 2>/dev/null
    wait $!
    echo "exit $?, $(grep -a 'saved\|again' said | tr -d '\r' | tr '\n' ' ')"
}
for to in slurm k8s; do
    "$program" launch --plan plan.json --to $to --image i --quiet -- bash train.sh >job
    case $to in k8s) lines job | sed 's|/output|output|; s|/gpuhours/plan|plan|' >job.sh ;; *) cp job job.sh ;; esac
    for where in with without; do
        rm -rf output
        echo "$to, $where watch: $(stop env PATH="$work/bin:$work/$where:$work/without" SLURM_JOB_ID=7)"
    done
    echo "$to, the last time: $(stop env PATH="$work/bin:$work/without" SLURM_JOB_ID=7 SLURM_RESTART_COUNT=3)"
    PATH="$work/bin:$work/without" STEPS=1 bash job.sh >/dev/null 2>&1
    echo "$to, to its end: exit $?"
done
