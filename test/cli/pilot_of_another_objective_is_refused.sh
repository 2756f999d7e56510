# SPDX-License-Identifier: Apache-2.0
# A pilot's rate would be taken for that of supervised steps: neither is it measured nor planned with.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job="--model llama-3.2-1b --tokens 1M --gpu h100 --gpus 1 --stack hf-peft --ledger off"
refused() {
    "$GPUHOURS" "$@" >/dev/null 2>"$work/words"
    echo "exit $?: $(sed "s|$work/||" "$work/words")"
}
"$GPUHOURS" plan $job --objective dpo --json >"$work/dpo.json" 2>/dev/null
cat >"$work/pilot.json" <<'P'
{"kind": "pilot", "version": 1, "tokens_per_second": {"mean": 20000}, "stack": "hf-peft",
 "configuration": {"model": "llama-3.2-1b", "gpu": "h100", "gpus": 1, "stack": "hf-peft"}}
P
refused pilot --plan "$work/dpo.json" -- true
refused pilot --plan "$work/dpo.json"
refused plan $job --objective dpo --pilot "$work/pilot.json"
