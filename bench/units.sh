#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# units.sh MEGABYTES KILLS FILE...: counts made-up data in work units on real schedulers, kills workers on the
# way, changes their number, and compares the merged profile with that of one run.
#
# The data is made from the rows of FILE (JSON Lines with a text after "question": or "content":), varied so that rows differ but for a
# few: once as 60 files, once as one. Workers are started by a Slurm array, by srun, by mpirun and by two shells, one after the other,
# until as many were killed with SIGKILL as was asked; the next ones complete the work. A Slurm of one node is started on loopback.
# GPUHOURS names the program, TOKENIZER its tokenizer, UNIT the size of a unit, SEED the moments of the kills, PARTS the numbers of files.
set -u
megabytes=$1 kills_wanted=$2
shift 2
program=${GPUHOURS:-build/gpuhours}
case $program in /*) ;; *) program=$PWD/$program ;; esac
tokenizer=${TOKENIZER:-test/data/small_tokenizer.json}
case $tokenizer in /*) ;; *) tokenizer=$PWD/$tokenizer ;; esac
unit=${UNIT:-16MiB} seed=${SEED:-1}
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
daemons=
finish() {
    for pid in $daemons; do kill "$pid" 2>/dev/null; done
    for pid in $daemons; do wait "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
until_true() { # TENTHS COMMAND...
    tenths=$1; shift
    for i in $(seq "$tenths"); do "$@" && return; sleep 0.1; done
    return 1
}

# --- a cluster of one node ---
start_slurm() {
    port=$((20000 + $$ % 12000))
    mkdir "$work/state" "$work/spool"
    chmod 755 "$work"
    cat >"$work/slurm.conf" <<END
ClusterName=units
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
KillWait=2
ReturnToService=2
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=8
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
    sed -i 's/^NodeName.*/& State=UNKNOWN/; $a SlurmdParameters=config_overrides' "$work/slurm.conf"
    printf 'CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n' >"$work/cgroup.conf"
    export SLURM_CONF="$work/slurm.conf"
    mungekey --create --keyfile "$work/munge.key" || return
    munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.sock" --pid-file="$work/munged.pid" \
        --seed-file="$work/munge.seed" --log-file="$work/munged.log" >/dev/null 2>&1 & daemons="$daemons $!"
    until_true 50 [ -S "$work/munge.sock" ] || return
    slurmctld -D >"$work/slurmctld.log" 2>&1 & daemons="$! $daemons"
    slurmd -D >"$work/slurmd.log" 2>&1 & daemons="$! $daemons"
    until_true 200 sh -c '[ "$(sinfo -h -o %T 2>/dev/null)" = idle ]'
}

# --- the data ---
copy() { # NUMBER FILE: its rows with a number in their text, one in fifty as it was
    awk -v n="$1" 'NR % 50 { sub(/"(question|content|instruction)": *"/, "&" n " ") } { print }' "$2"
}
make_data() { # MEGABYTES PARTS FOLDER FILE...
    bytes=$(($1 * 1000000)) parts=$2 folder=$3 part=0 number=0
    shift 3
    mkdir "$folder"
    while [ $part -lt "$parts" ]; do
        name=$folder/part-$(printf %02d $part).jsonl
        : >"$name"
        while [ "$(wc -c <"$name")" -lt $((bytes / parts)) ]; do
            number=$((number + 1))
            copy $number "$1" >>"$name"
        done
        part=$((part + 1))
        first=$1; shift; set -- "$@" "$first"
    done
}

# --- workers, and their deaths ---
workers() { # the processes that count into our folder
    for file in $(grep -alzx -- "$units" /proc/[0-9]*/cmdline 2>/dev/null); do
        [ "$(sed -zn 2p "$file" 2>/dev/null | tr -d '\0')" = profile ] && basename "$(dirname "$file")"
    done
}
random() { # MOST: a number below it
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    echo $((seed / 65536 % $1))
}
results() { ls "$units" 2>/dev/null | grep -c '\.unit$'; }
# Kills are spread over the first half of the results, so that those that came late have the other half.
behind() { echo $(($(results) * 2 * kills_wanted / unit_count - kills)); }
kill_while() { # STARTER COMMAND...: kills workers, at random moments, while the command succeeds
    by=$1
    shift
    while [ $kills -lt "$kills_wanted" ] && "$@"; do
        late=$(behind)
        [ "$late" -ge 0 ] || { sleep 0.1; continue; }
        [ "$late" -gt 0 ] || sleep "0.$(printf %02d "$(random 100)")"
        kill_one
    done
}
kill_one() {
    set -- $(workers)
    [ $# -gt 0 ] || return
    shift "$(random $#)"
    kill -9 "$1" 2>/dev/null && kills=$((kills + 1)) && killed="$killed $by"
}
has_job() { squeue -h -j "$job" 2>/dev/null | grep -q .; }
any_alive() { # PID...
    for pid in "$@"; do kill -0 "$pid" 2>/dev/null && return; done
    return 1
}
by_array() { # TASKS
    printf '#!/bin/sh\nexec %s\n' "$asked" >"$work/task.sh"
    job=$(sbatch --parsable --array=3-$((2 + $1)) --output="$work/array-%a.log" --no-requeue "$work/task.sh") || return
    kill_while array has_job
    until_true 9000 sh -c "! squeue -h -j $job 2>/dev/null | grep -q ."
}
by_srun() { # TASKS
    srun --kill-on-bad-exit=0 -n "$1" $asked >"$work/srun.log" 2>&1 & starter=$!
    kill_while srun any_alive $starter
    wait $starter
}
by_mpi() { # RANKS; Slurm's own PMI2 where there is no mpirun
    if command -v mpirun >/dev/null; then
        mpirun --allow-run-as-root --oversubscribe -n "$1" $asked >"$work/mpi.log" 2>&1 & starter=$!
    else
        srun --mpi=pmi2 --kill-on-bad-exit=1 -n "$1" $asked >"$work/mpi.log" 2>&1 & starter=$!
    fi
    kill_while mpirun any_alive $starter
    wait $starter
}
by_shells() { # SHELLS
    starters=
    for k in $(seq "$1"); do
        $asked --shard "$k/$1" >"$work/shell-$k.log" 2>&1 & starters="$starters $!"
    done
    kill_while shells any_alive $starters
    wait $starters
}

one_form() { # FOLDER
    units=$work/units.$(basename "$1") kills=0 tries=0 killed=
    asked="$program profile $1 --tokenizer $tokenizer --template chatml --ledger off --quiet"
    start=$(date +%s)
    $asked --out "$work/one.json" >/dev/null || return
    seconds=$(($(date +%s) - start))
    echo "  one run: $seconds s, $(sed -n 's/^  "examples": \([0-9]*\).*/\1/p' "$work/one.json" | head -1) examples, $(sed -n 's/^  "duplicate_examples": \([0-9]*\).*/\1/p' "$work/one.json") duplicates"
    asked="$asked --units $units --unit-size $unit"
    start=$(date +%s)
    $asked --shard 999999/999999 >/dev/null # makes the list of the units
    unit_count=$(($(grep -c '"key":' "$units/units.json") - 1))
    by_array 4
    while [ $kills -lt "$kills_wanted" ] && [ "$(results)" -lt $unit_count ]; do
        tries=$((tries + 1))
        by_srun 3; by_mpi 3; by_shells 2; by_array $((1 + tries % 5))
    done
    until=$kills_wanted kills_wanted=0
    "$program" profile --merge "$units" --ledger off --quiet --out "$work/merged.json" >/dev/null 2>"$work/said"
    echo "  after $kills kills: exit $?; $(sed 's/^gpuhours: [^:]*: //' "$work/said")"
    by_array 3; by_mpi 2; by_shells 2
    kills_wanted=$until
    "$program" profile --merge "$units" --ledger off --quiet --out "$work/merged.json" >/dev/null || cat "$work"/*.log
    echo "  $kills kills ($(echo $killed | tr ' ' '\n' | sort | uniq -c | awk '{ printf "%s%s %s", n++ ? ", " : "", $2, $1 }')), units $(ls "$units"/*.unit | wc -l), $(($(date +%s) - start)) s; results of $(cat "$units"/*.unit | wc -c) bytes"
    cmp "$work/one.json" "$work/merged.json" && echo "  the merged profile equals that of one run"
    for by in array-3 srun mpi shell-1; do
        grep -qs 'of this share' "$work/$by.log" && echo "  $by: $(sed -n 's/^  units  *//p' "$work/$by.log" | head -1)"
    done
}

start_slurm || { echo "Slurm does not start here"; exit 77; }
for parts in ${PARTS:-60 1}; do
    make_data "$megabytes" $parts "$work/data$parts" "$@"
    echo "$(du -sk --apparent-size "$work/data$parts" | cut -f1) KB in $parts files:"
    one_form "$work/data$parts"
    rm -rf "$work/data$parts"
done
