# SPDX-License-Identifier: Apache-2.0
# plan --plan takes all options of a former plan, and the batches that were simulated on its data; the
# command line overrides them. --explain says who gave what.
program=$(realpath "$GPUHOURS")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
head() { sed -n '1p;/^  GPU hours/p;/^  run /,/^  precision/p;/^  settings/,/^$/p' | sed '/^  precision/d'; }
"$program" plan example --model llama-3.1-8b --epochs 6 --gpu h100 --gpus 2 --json >plan.json
"$program" plan example --model llama-3.1-8b --epochs 6 --gpu h100 --gpus 2 --search off | head
echo "the same, from its document"
"$program" plan --plan plan.json --search off | head
echo "on another GPU, for one epoch"
"$program" plan --plan plan.json --gpu a100 --epochs 1 --search off | head
"$program" plan --plan plan.json --gpu a100 --epochs 1 --explain |
    sed -n '/^9 /,$p' | grep -E '^  (epochs|context|tokens|global batch|mean length) '
echo "rows of one are not padded"
"$program" plan --plan plan.json --micro-batch 1 --global-batch 64 --search off | grep padding
echo "another trainer packs"
"$program" plan --plan plan.json --stack axolotl --search off | grep padding
echo "a document before 0.9.9 tells the padding of its own micro-batch alone"
sed 's/"shapes"/"absent"/' plan.json >older.json
"$program" plan --plan older.json --gpu a100 --epochs 1 --search off | sed -n '/ settings /p; /padding_of/,/others/p'
for plan in plan older; do "$program" hosts --plan $plan.json --gpu h100 | grep -c h100 >$plan.txt; done
cmp plan.txt older.txt && echo "hosts reads both"
echo "what is no plan"
echo '{"kind":"pilot"}' >pilot.json
"$program" plan --plan pilot.json 2>&1
echo "exit $?"
