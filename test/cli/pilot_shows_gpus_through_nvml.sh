# SPDX-License-Identifier: Apache-2.0
# The stand-in for NVML has two GPUs of which one works: 4 GiB at most, 90 % busy, 650 of 700 W.
. test/cli/wrapped.inc
GPUHOURS_NVML=${STAND_INS:-build/fast/stand_in}/nvml.so "$GPUHOURS" pilot --quiet --json --tokens-per-step 10 \
    -- "$trainer" trains 100 10 2>/dev/null >"$work/pilot.json"
sed -n 's/\(utilisation": 0\.[0-9]\)[0-9]*/\1/; /"peak_bytes"/p; /"gpu": {/,/utilisation/p' "$work/pilot.json"
GPUHOURS_NVML=$work/none.so "$GPUHOURS" pilot --tokens-per-step 10 --out "$work/pilot.json" -- "$trainer" trains 20 5 \
    >"$work/out" 2>"$work/err"
said "$work/err" | grep driver
