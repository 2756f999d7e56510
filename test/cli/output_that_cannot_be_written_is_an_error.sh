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
# A pipe that its only reader has left: of `a | b` the shell holds a copy for a moment.
leave_pipe() {
    rm -f "$work/pipe"
    mkfifo "$work/pipe"
    : <"$work/pipe" &
    exec 9>"$work/pipe"
    wait $!
}
closed() {
    leave_pipe
    "$GPUHOURS" "$@" >&9 2>"$work/said" 9>&-
    code=$?
    exec 9>&-
    [ $code = 141 ] && [ ! -s "$work/said" ] || { echo "$* | closed: exit $code: $(cat "$work/said")"; }
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
    leave_pipe
    "$GPUHOURS" watch --quiet --plan "$work/plan.json" --out "$work/run.json" -- sh -c "exit $code" >&9 2>"$work/said" 9>&-
    echo "exit $?"
    exec 9>&-
done
