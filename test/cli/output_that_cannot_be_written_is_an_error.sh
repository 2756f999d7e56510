# SPDX-License-Identifier: Apache-2.0
# A full disk: one sentence and exit code 3. A closed pipe: SIGPIPE, and no sentence.
# Around a trainer the exit code stays the trainer's.
[ -n "$FAULTS" ] || { echo "below the sanitizers: make check-torture SAN=1"; exit 77; }
. test/cli/every_command.inc
full() {
    "$GPUHOURS" "$@" >/dev/full 2>"$work/said"
    code=$?
    sed -i '/^gpuhours: not steady/d' "$work/said" # of a pilot on a busy machine
    [ $code = 3 ] && [ "$(cat "$work/said")" = "gpuhours: cannot write standard output: No space left on device" ] ||
        { echo "$* > /dev/full: exit $code: $(cat "$work/said")"; }
}
closed() {
    rm -f "$work/closed"
    { while [ ! -e "$work/closed" ]; do sleep 0.01; done
      "$GPUHOURS" "$@" 2>"$work/said"
      echo $? >"$work/code"; } | { exec <&-; : >"$work/closed"; }
    [ "$(cat "$work/code")" = 141 ] && [ ! -s "$work/said" ] ||
        { echo "$* | closed: exit $(cat "$work/code"): $(cat "$work/said")"; }
}
every_text full
every_data full
case $GPUHOURS in */san/*) ;; *) every_text closed ;; esac # sanitizers take half a minute
every_data closed
"$GPUHOURS" show gpus >&- 2>"$work/said"
echo "exit $?: $(cat "$work/said")"

echo "-- around a trainer"
for code in 0 7; do
    "$GPUHOURS" watch --quiet --plan "$work/plan.json" --out "$work/run.json" -- sh -c "exit $code" >/dev/full 2>"$work/said"
    echo "exit $?"
    grep -c 'cannot write standard output' "$work/said"
    rm -f "$work/closed"
    { while [ ! -e "$work/closed" ]; do sleep 0.01; done
      "$GPUHOURS" watch --quiet --plan "$work/plan.json" --out "$work/run.json" -- sh -c "exit $code" 2>"$work/said"
      echo "exit $?" >"$work/code"; } | { exec <&-; : >"$work/closed"; }
    cat "$work/code"
done
