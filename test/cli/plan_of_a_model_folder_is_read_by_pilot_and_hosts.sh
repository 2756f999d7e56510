# SPDX-License-Identifier: Apache-2.0
# A plan of a folder holds the model's name and shape: hosts and pilot read it, also where the folder is gone.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work"
mkdir "$work/tiny" && cp test/data/tiny_model/*.json "$work/tiny"
"$GPUHOURS" plan --model "$work/tiny" --tokens 1M --stack native --gpu h100 --gpus 1 --context 64 --micro-batch 2 \
    --global-batch 4 --precision fp32 --search off --json >"$work/plan.json"
grep -A 4 '^  "model"' "$work/plan.json" | sed "s|$work|WORK|"
first() { # what hosts recommends first, and how many places it compares
    "$GPUHOURS" hosts --plan "$work/plan.json" --today 2026-09-01 "$@" | sed -n 1,2p
}
. test/cli/settled.inc
pilot() {
    settled "$GPUHOURS" pilot --plan "$work/plan.json" --device cpu --steps 8 --out "$work/pilot.json" "$@" >"$work/out"
    echo "exit $?"
    grep 'weights' "$work/err" | sed "s|$work|WORK|"
    grep -c 'tokens/s' "$work/out"
}
first >"$work/here"
pilot
mv "$work/tiny" "$work/elsewhere"
first >"$work/gone"
cmp "$work/here" "$work/gone" && [ -s "$work/here" ] && echo "hosts: the same without the folder"
pilot
"$GPUHOURS" pilot --plan "$work/plan.json" --device cpu --steps 8 --out "$work/pilot.json" --model "$work/nowhere" 2>&1 | sed "s|$work|WORK|"
"$GPUHOURS" hosts --plan "$work/plan.json" --model llama-3.1-8b --today 2026-09-01 | sed -n 1,2p | cmp -s - "$work/here" ||
    echo "hosts: another --model is looked up"
sed 's/"layers": [0-9]*/"layers": 0/' "$work/plan.json" >"$work/bad.json"
"$GPUHOURS" hosts --plan "$work/bad.json" 2>&1 | sed "s|$work|WORK|"
