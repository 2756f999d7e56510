# SPDX-License-Identifier: Apache-2.0
# A trainer that ends after three seconds: its rate is written, as one that was too brief to be sustained.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --ledger off --tokens-per-step 100 --out "$work/pilot.json" -- \
    "$trainer" trains 60 50 >"$work/out" 2>"$work/err"
echo "exit $?"
said "$work/err" | sed 's/[0-9.]* m*s of steady/TIME of steady/'
grep -ac 'tokens/s sustained' "$work/out"
grep -o '"steady": [a-z]*' "$work/pilot.json"
left
