# SPDX-License-Identifier: Apache-2.0
# A token, a password and an address with a password stay out of documents, reports and the ledger,
# whether they stand in a file or on the trainer's command line.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/axolotl.yml" <<'YAML'
base_model: meta-llama/Llama-3.1-8B
adapter: lora
lora_r: 16
hub_token: SECRET-1
wandb_api_key: SECRET-2
odd_url: https://me:SECRET-3@example.org/x
odd_values: [a, hf_SECRET-4-aaaaaaaaaaaaaaa]
pad_token: "<pad>"
YAML
"$GPUHOURS" plan --tokens 10M --gpu h100 --from "$work/axolotl.yml" --json --ledger "$work/ledger" \
    >"$work/plan.json" 2>"$work/err"
"$GPUHOURS" plan --tokens 10M --gpu h100 --from "$work/axolotl.yml" --explain >"$work/plan.txt" 2>>"$work/err"
"$GPUHOURS" report "$work/plan.json" --html "$work/report.html" >"$work/report.txt" 2>>"$work/err"
"$GPUHOURS" memory --gpu h100 --json --from command -- trl sft --model_name_or_path meta-llama/Llama-3.1-8B \
    --hub_token SECRET-5 --lora_r 16 >"$work/memory.json" 2>>"$work/err"
for name in plan.json plan.txt report.html memory.json ledger; do [ -s "$work/$name" ] && echo "$name"; done
grep -al SECRET "$work"/plan* "$work"/report* "$work"/memory* "$work"/ledger* "$work/err"
grep -A1 '"key": "\(hub_token\|wandb_api_key\|odd_.*\|pad_token\)"' "$work/plan.json" | sed 's/^ *//'
