# SPDX-License-Identifier: Apache-2.0
# Fifty steps of a trainer that reports every tenth are five reports, and a rate needs eight: it runs on until there are.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --ledger off --tokens-per-step 100 --steps 50 --out "$work/pilot.json" -- \
    sh -c 'for i in $(seq 0 10 300); do echo "step $i loss 1.5"; sleep 0.6; done' >"$work/out" 2>"$work/err"
echo "exit $?"
said "$work/err"
sed -n 's/.*"steps": \([0-9]*\),$/\1/p' "$work/pilot.json" | awk '{ print ($1 >= 80 && $1 < 200 ? "80 and a few" : $1); exit }'
left
