# SPDX-License-Identifier: Apache-2.0
# A pilot in the place of the stack's speed: for the same run, for other lengths, for eight GPUs, and refused.
pilot=test/data/pilot/h200_8b_lora.json
plan() { "$GPUHOURS" plan --tokens 21.4M --pilot "$pilot" --search off "$@"; }
show() { sed -n '/^  speed/,/^  run /p' | sed '$d'; }
plan | head -1
plan | show
echo "other lengths"
plan --context 1024 --micro-batch 2 | show
echo "eight GPUs"
plan --gpus 8 --epochs 3 | show
echo "another stack"
plan --stack unsloth | grep -A 1 'pilot_of_another_stack'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed 's/NVIDIA H200/cpu/' "$pilot" >"$work/cpu.json"
"$GPUHOURS" plan --tokens 1M --pilot "$work/cpu.json" 2>&1 | sed "s|$work/||"
"$GPUHOURS" plan --tokens 1M --pilot "$work/none.json" 2>&1 | sed "s|$work/||"
