# SPDX-License-Identifier: Apache-2.0
# A pilot of one objective says nothing about another, the built-in engine trains on given rows and pairs only, and a trainer that does not print the phases
# of its steps cannot tell how long it samples.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job="--model llama-3.2-1b --gpu h100 --gpus 1 --stack hf-peft --ledger off --search off"
rl="$job --objective grpo --steps 100 --response-length 300,600,1200"
refused() {
    "$GPUHOURS" "$@" >/dev/null 2>"$work/words"
    echo "exit $?: $(sed "s|$work/||" "$work/words")"
}
"$GPUHOURS" plan $job --tokens 1M --objective orpo --json >"$work/orpo.json" 2>/dev/null
"$GPUHOURS" plan $job --tokens 1M --objective dpo --reference precomputed --json >"$work/other.json" 2>/dev/null
cat >"$work/sft.pilot.json" <<'P'
{"kind": "pilot", "version": 1, "tokens_per_second": {"mean": 20000}, "stack": "hf-peft",
 "configuration": {"model": "llama-3.2-1b", "gpu": "h100", "gpus": 1, "stack": "hf-peft"}}
P
sed 's/"version": 1,/"version": 1, "objective": "dpo",/' "$work/sft.pilot.json" >"$work/dpo.pilot.json"
sed 's/"version": 1,/"version": 1, "objective": "grpo",/' "$work/sft.pilot.json" >"$work/grpo.pilot.json"
refused pilot --plan "$work/orpo.json"
refused pilot --plan "$work/other.json"
refused plan $job --tokens 1M --objective dpo --pilot "$work/sft.pilot.json"
refused plan $job --tokens 1M --objective dpo --pilot "$work/dpo.pilot.json"
refused plan $job --tokens 1M --pilot "$work/dpo.pilot.json"
refused plan $rl --pilot "$work/grpo.pilot.json"
