# SPDX-License-Identifier: Apache-2.0
# A plan for H100s, measured where the driver names an H200: the result is one of an H200, and says so. Where the catalog does not
# know the driver's name, the plan's stays.
. test/cli/wrapped.inc
"$GPUHOURS" plan --tokens 1M --model llama-3.2-1b --gpu h100 --gpus 1 --context 512 --search off --ledger off --json --quiet \
    >"$work/plan.json"
for name in 'NVIDIA H200' 'NVIDIA H100 80GB HBM3' 'Test GPU 0'; do
    echo "$name"
    GPUHOURS_TEST_GPU=$name GPUHOURS_NVML=${STAND_INS:-build/fast/stand_in}/nvml.so "$GPUHOURS" pilot --plan "$work/plan.json" --json \
        --ledger off --tokens-per-step 10 -- "$trainer" trains 60 10 2>"$work/err" >"$work/pilot.json"
    said "$work/err" | grep 'the plan is for'
    grep '"gpu": "' "$work/pilot.json"
done
