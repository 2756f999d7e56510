# SPDX-License-Identifier: Apache-2.0
# --tokens and --examples beside data say how large the whole set is; they were ignored. Tokens grow with it; of --examples the range
# knows that the mean of a sample is not that of all.
plan() { "$GPUHOURS" plan example --model llama-3.2-1b --gpu h100 --gpus 1 --search off --quiet --ledger off "$@"; }
size() { plan "$@" --json | grep -E '"(processed_tokens|padding_share|sample_spread)":' | head -3 | tr -d ' \n'; echo; }
size
size --tokens 4.61M
size --examples 30k
plan --examples 30k | grep -A 1 data_is_a_sample
plan --examples 30k --tokens 1M
echo "exit $?"
plan --mean-length 100
echo "exit $?"
