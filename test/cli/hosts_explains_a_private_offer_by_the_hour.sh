# SPDX-License-Identifier: Apache-2.0
# The arithmetic of one row: whole instances, hours begun, and what the price is.
"$GPUHOURS" hosts --model llama-3.1-8b --tokens 21.4M --epochs 3 --gpu h100 --gpus 8 \
    --offers test/data/hosts/mine.csv --compliance hipaa --today 2026-11-15 --explain acme/pod-8 |
    grep -E 'whole|billed|compute  |results' | sed 's/: 8 × .*//'
