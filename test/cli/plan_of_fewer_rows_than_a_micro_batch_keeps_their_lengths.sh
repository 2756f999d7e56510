# SPDX-License-Identifier: Apache-2.0
# Five rows of one length, micro-batches of eight: a batch is the five rows as they are, and no warning tells of shorter
# ones, or of a context that plan chose itself.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for i in 1 2 3 4 5; do
    echo "{\"instruction\": \"Add $i and 2\", \"input\": \"\", \"output\": \"$i\"}"
    echo "{\"prompt\": \"Say $i\", \"chosen\": \"$i\", \"rejected\": \"no, never\"}" >&2
done >"$work/rows.jsonl" 2>"$work/pairs.jsonl"
plan() {
    "$GPUHOURS" plan "$@" --model llama-3.1-8b --gpu h100 --micro-batch 8 --ledger off >"$work/out"
    grep -A1 context_beyond "$work/out"
    "$GPUHOURS" plan "$@" --model llama-3.1-8b --gpu h100 --micro-batch 8 --ledger off --explain |
        sed -n 's/ *rows × width.*//; /average micro-batch/p; /largest micro-batch/p'
}
plan "$work/rows.jsonl"
plan "$work/rows.jsonl" --context 4096
plan "$work/pairs.jsonl" --objective dpo --context 4096
