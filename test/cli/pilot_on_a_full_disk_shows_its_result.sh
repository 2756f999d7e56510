# SPDX-License-Identifier: Apache-2.0
# A limit of 512 bytes a file stands for a full disk.
. test/cli/wrapped.inc
trap '' XFSZ
(ulimit -f 1; marked "$GPUHOURS" pilot --quiet --ledger off --tokens-per-step 10 --steps 20 --until-width 0.9 --at-least 0 \
    --out "$work/pilot.json" -- "$trainer" trains 4000 10 2>&1; echo "exit $?") | cat >"$work/all"
grep exit "$work/all"
grep -c '"kind": "pilot"' "$work/all"
said "$work/all" | sed 's/written: .*/written: WHY/'
ls "$work"
left
