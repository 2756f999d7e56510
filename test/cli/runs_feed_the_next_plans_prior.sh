# SPDX-License-Identifier: Apache-2.0
# Three like runs that were a fifth slower than foreseen: the next plan is slower and surer.
command -v node >/dev/null || { echo "there is no node to read it"; exit 77; }
plan() { "$GPUHOURS" plan --model llama-3.1-8b --gpu h100 --gpus 8 --json "$@"; }
look() {
    node -e '
        const plan = JSON.parse(require("fs").readFileSync(0, "utf8")), t = plan.tokens_per_second;
        const own = plan.assumptions.filter(a => a.origin == "ledger");
        console.log((t.p50 / plan.roofline_tokens_per_second).toFixed(2), (t.p90 / t.p10).toFixed(2), own.length, own.map(a => a.source).join());'
}
plan --tokens 21M | look
id=0
for context in 1024 2048 4096; do
    rate=$(plan --tokens 21M --context $context --ledger off | node -e '
        const plan = JSON.parse(require("fs").readFileSync(0, "utf8"));
        console.log(Math.round(0.8 * plan.tokens_per_second.p50))')
    plan --tokens 21M --context $context >plan.$$
    "$GPUHOURS" runs actual --plan plan.$$ --tokens-per-second $rate >/dev/null
    plan --tokens 20M | look
done
rm plan.$$
plan --tokens 20M --ledger off | look
plan --tokens 20M --method full | look
