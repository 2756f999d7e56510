# SPDX-License-Identifier: Apache-2.0
# Each write of a watched run fails once, the one among them by which the process between us and the trainer tells of
# its end: watch ends all the same. Found by make check-torture ONLY=pilot.
[ -n "$FAULTS" ] || { echo "below the sanitizers: make check-torture SAN=1"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan --tokens 10M --model llama-3.1-8b --gpu h100 --ledger off --search off --json >"$work/plan.json"
for call in 1 2 3 4 5 6 7 8; do
    head -c 4096 /dev/zero >"$work/counts"
    timeout -s KILL 60 env LD_PRELOAD="$FAULTS/inject.so" FAULT="write:$call:$work/counts" "$GPUHOURS" watch --quiet \
        --grace 0.2 --plan "$work/plan.json" --ledger off --out "$work/result.json" -- sh -c 'sleep 0.1; exit 7' >"$work/out" 2>"$work/err"
    code=$?
    [ $code -ne 137 ] || { echo "write $call: does not end"; exit 1; }
    [ $code -eq 7 ] || [ $code -eq 126 ] || [ $code -eq 3 ] || { echo "write $call: exit $code"; cat "$work/err"; exit 1; }
done
