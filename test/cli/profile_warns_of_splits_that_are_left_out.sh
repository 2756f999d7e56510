# SPDX-License-Identifier: Apache-2.0
# On standard error, with --quiet and in units too; and in the documents of profile and pack. Once:
# a profile or a plan in words lists it among its warnings alone, but for one that fails before.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
tokenizer=$PWD/test/data/small_tokenizer.json example=$PWD/data/example.jsonl
cd "$folder" || exit
exec 2>&1
mkdir data
for split in train test validation; do head -n 3 "$example" > data/$split.jsonl; done
asked="data --tokenizer $tokenizer --template chatml --quiet"
count() { grep -c '"splits_left_out"' "$1"; }
$program profile $asked --json > profile.json
count profile.json
$program profile $asked --out text.json | sed -n '/  warnings/,$p' | sed '/written/,$d'
$program profile $asked --out - | grep -c '"left_out_file"'
echo "== units"
$program profile $asked --units counted --json > units.json
cmp profile.json units.json && echo "the same in units"
$program profile --merge counted --json > merged.json && cmp profile.json merged.json && echo "merged, too"
$program profile --merge profile.json profile.json --json | grep '"left_out'
$program profile $asked --units counted --out text.json | grep -c splits_left_out
$program profile $asked --units counted --shard 1/2 --out text.json | grep -c splits_left_out
echo "== pack"
$program pack $asked --context 512 --out packed --json > packed.json
count packed.json
$program pack $asked --context 512 --units tokens --out again --json > again.json
cmp packed.json again.json && echo "the same in units"
echo "== plan"
$program plan data --model llama-3.1-8b --gpu h100 --tokenizer $tokenizer --json 2>&1 > plan.json | grep splits
count plan.json
$program plan --profile profile.json --model llama-3.1-8b --gpu h100 --json 2>&1 > /dev/null | grep splits
$program plan --profile profile.json --model llama-3.1-8b --gpu h100 2>&1 | grep -c splits_left_out
$program plan data --model llama-3.1-8b --gpu h100 --tokenizer $tokenizer 2>&1 | grep -c splits_left_out
$program plan data --model llama-3.1-8b --gpu h100 --tokenizer $tokenizer --objective dpo 2>&1 | grep -o "^gpuhours: [a-z_]*:"
