# SPDX-License-Identifier: Apache-2.0
# On a card of 24 GB the trainer fits, but not the sampler beside it: no such card is an alternative, and the plan ends.
timeout 100 "$GPUHOURS" plan --tokens 2M --model qwen3-8b --gpu h100 --objective grpo --steps 50 --response-length 200,500,1000 \
    --ledger off --json --quiet | grep -oE "^  .(gpu_hours|wall_hours).: |rtx-3090" | sort -u
