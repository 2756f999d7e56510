# SPDX-License-Identifier: Apache-2.0
# Hours alone teach nothing, and a run says so; a speed moves the next plan, which names the run that did; deleted, it is forgotten.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs() { "$GPUHOURS" runs --ledger "$work/ledger.sqlite" "$@" 2>&1 | sed 's/ of 20[0-9-]*//'; }
learned() {
    "$GPUHOURS" plan --ledger "$work/ledger.sqlite" --model llama-3.1-8b --method lora --tokens 20M --gpu h200 --gpus 1 --stack hf-peft \
        --context 2048 --batching packed --micro-batch 4 --global-batch 16 --search off --json |
        sed -n '/"name": "efficiency/,/"source"/s/.*: "\(.*\)",$/\1/p' | tail -1 | sed 's/× 0\.[0-9]*/× N/; s/at 0\.[0-9]* ×/at N ×/; s/0\.[0-9]* GPU hours, 0\.[0-9]* /A GPU hours, B /'
}
learned
runs actual 1 --wall-hours 0.9 | grep 'later plans'
learned
runs actual 1 --tokens-per-second 8000 | grep 'later plans'
learned
runs delete 2 4
learned
