# SPDX-License-Identifier: Apache-2.0
# validate prints its groups, marks those that are off, counts verdicts of fit and compares how jobs scale; it refuses
# words that a column does not have. Numbers are left out: they change with every improvement.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
header=id,source,model,method,seq_len,packed,micro_batch,parallelism,stack,gpu,n_gpus,series,tokens_per_s_total,outcome,excluded,notes
{
    echo $header
    for i in 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15; do # ten times as fast as anything
        echo "fast-$i,us,llama-3.1-8b,lora,2048,yes,4,single,hf-peft,h100,1,,90000,,,"
    done
    echo 'slow-1,us,llama-3.1-8b,lora,2048,yes,4,single,unsloth,h100,1,,10,,,'
    echo 'grow-1,us,llama-3.1-8b,full,4096,yes,1,fsdp8,torchtitan,h100,8,grows,100,,,'
    echo 'grow-2,us,llama-3.1-8b,full,4096,yes,1,fsdp16,torchtitan,h100,16,grows,100,,,'
    echo 'fit-1,us,llama-3.2-1b,lora,512,yes,1,single,hf-peft,h200,1,,,fits,,'
    echo 'fit-2,us,llama-3.2-1b,lora,512,yes,1,single,hf-peft,h200,1,,,out-of-memory,,'
    echo 'out-1,us,llama-3.2-1b,lora,512,yes,1,single,hf-peft,h200,1,,,,DoRA,'
    echo 'out-2,us,llama-3.2-1b,lora,512,yes,1,single,hf-peft,h200,1,,,,DoRA,'
} >"$work/runs.csv"
echo "groups: $("$GPUHOURS" validate "$work/runs.csv" | sed -n 's/^  by //p' | tr '\n' ';')"
echo "off:"
"$GPUHOURS" validate "$work/runs.csv" | awk '$NF == "speed" { print "  " $1 }'
"$GPUHOURS" validate "$work/runs.csv" | grep 'not used'
"$GPUHOURS" validate "$work/runs.csv" | sed -n '/^Fit:/,/^$/p'
"$GPUHOURS" validate "$work/runs.csv" | grep -c 'grow-2 .* off$'
for cell in 'loss cut' 'optimizer lion' 'rate_covers everything' 'masks perhaps'; do
    { echo "id,source,model,method,${cell% *}"; echo "a,us,llama-3.2-1b,lora,${cell#* }"; } >"$work/wrong.csv"
    "$GPUHOURS" validate "$work/wrong.csv" 2>&1 | sed "s|$work/||"
done
