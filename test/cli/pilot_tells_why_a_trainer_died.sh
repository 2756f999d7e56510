# SPDX-License-Identifier: Apache-2.0
. test/cli/wrapped.inc
died() {
    marked "$GPUHOURS" pilot --quiet --tokens-per-step 10 --at-least 0 --out "$work/pilot.json" -- "$@" \
        >"$work/out" 2>"$work/err"
    echo "exit $?"
    said "$work/err"
}
died "$trainer" dies 6 5
died "$trainer" memory 6 5
died sh -c 'echo it is cold here >&2; kill -SEGV $$'
died "$trainer" fails 4 5
left
