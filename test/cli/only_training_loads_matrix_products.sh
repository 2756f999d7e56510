# SPDX-License-Identifier: Apache-2.0
# OpenBLAS, whose threads would spin in every command, is loaded by training on the CPU alone.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" --version | grep -q 'OpenBLAS yes' || { echo "this build is without OpenBLAS"; exit 77; }
loads() { LD_DEBUG=files LD_DEBUG_OUTPUT="$work/$1" "$GPUHOURS" "$@" >/dev/null 2>&1; cat "$work/$1".* | grep -q 'calling init.*libopenblas' && echo yes || echo no; }
echo "show: $(loads show gpus)"
echo "plan: $(loads plan --tokens 1M --model llama-3.1-8b --gpu h100 --search off --ledger off)"
echo "train: $(loads train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --rank 4 --context 64 \
    --max-steps 1 --device cpu --ledger off --quiet --out "$work/out")"
