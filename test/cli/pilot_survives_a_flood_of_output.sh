# SPDX-License-Identifier: Apache-2.0
# 60 MB come through whole and in order, and the steps after them are seen.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --tokens-per-step 10 --out "$work/pilot.json" \
    -- "$trainer" floods 8 5 60 2>"$work/err" | sed '/^$/,$d' | cksum
yes $(printf '%099d' 0 | tr 0 x) | head -c 60000000 | cksum
tr '\r' '\n' <"$work/err" | grep -c '| 8/8 \['
left
