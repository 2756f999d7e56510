# SPDX-License-Identifier: Apache-2.0
# Each read of a watched run fails once, as Linux does to the reader of a terminal that is closed while it looks: every
# line that the trainer printed is there all the same.
[ -n "$FAULTS" ] || { echo "below the sanitizers: make check-torture SAN=1"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan --tokens 10M --model llama-3.1-8b --gpu h100 --ledger off --search off --json >"$work/plan.json"
watch() { # CALL
    head -c 4096 /dev/zero >"$work/counts"
    timeout -s KILL 60 env LD_PRELOAD="$FAULTS/inject.so" FAULT="read:$1:$work/counts" "$GPUHOURS" watch --quiet \
        --plan "$work/plan.json" --ledger off -- sh -c 'echo first; sleep 0.05; echo last' >"$work/out" 2>"$work/err"
}
watched=0 call=0
while [ $watched -lt 8 ] && [ $call -lt 200 ]; do # the first reads are of the plan
    call=$((call + 1))
    watch $call || continue
    watched=$((watched + 1))
    [ "$(grep -c -x -e first -e last "$work/out")" -eq 2 ] || { echo "read $call:"; cat "$work/out" "$work/err"; exit 1; }
done
[ $watched -eq 8 ] || { echo "only $watched of $call runs succeeded"; exit 1; }
