# SPDX-License-Identifier: Apache-2.0
# A trainer that prints lines as verl does: sampling takes half as long again, training a fifth. The plan with the pilot says both.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job="--model llama-3.2-1b --gpu h100 --gpus 8 --sampler-gpus 0 --stack hf --method full --objective grpo --steps 100 --response-length 300,600,1200
     --micro-batch 1 --generations 8 --global-batch 8 --checkpointing full --parallel fsdp --reference none --search off --ledger off"
phase() { tr -d ' \n' <"$1" | sed "s/.*\"phases\":\[\([^]]*\)\].*/\1/" | sed "s/.*\"$2\",\"seconds\":\([0-9.e+-]*\).*/\1/"; }
"$GPUHOURS" plan $job --json >"$work/plan.json"
rollout=$(phase "$work/plan.json" rollout) waiting=$(phase "$work/plan.json" waiting)
policy=$(phase "$work/plan.json" log-probabilities) training=$(phase "$work/plan.json" training)
tokens=$(tr -d ' \n' <"$work/plan.json" | sed 's/.*"processed_tokens":\([0-9.]*\),.*/\1/')
cat >"$work/trainer.sh" <<'T'
i=0
while [ $i -lt 40 ]; do
    i=$((i + 1))
    echo "(TaskRunner pid=7) step:$i - response_length/mean:$1 - timing_s/gen:$2 - timing_s/old_log_prob:$3 - timing_s/update_actor:$4 - perf/total_num_tokens:$5"
    sleep 0.05
done
T
product() { awk "BEGIN { printf \"%.9g\", $1 }"; }
mean=$("$GPUHOURS" plan $job | tr -s ' \n' ' ' | sed 's/.* answers of \([0-9]*\) tokens.*/\1/')
"$GPUHOURS" pilot --plan "$work/plan.json" --out "$work/pilot.json" --steps 30 --quiet -- sh "$work/trainer.sh" "$mean" "$(product "1.5 * ($rollout + $waiting)")" \
    "$(product "1.2 * $policy")" "$(product "1.2 * $training")" "$(product "$tokens / 100")" >"$work/said" 2>&1
tr -s ' \n' ' ' <"$work/said" | grep -o 'phases rollout [0-9.]* m*s, log-probabilities [0-9.]* m*s, training [0-9.]* m*s' | sed 's/[0-9.]* m*s/…/g'
[ -e "$work/pilot.json" ] || tail -20 "$work/said"
"$GPUHOURS" plan $job --pilot "$work/pilot.json" --json >"$work/after.json"
ratio() { awk "BEGIN { print $(phase "$work/after.json" $1) / $(phase "$work/plan.json" $1) }"; }
between() { awk "BEGIN { r = $(ratio $1); print \"$1\", (r > $2 && r < $3 ? \"between $2 and $3\" : r), \"times as long\" }"; }
between rollout 1.49 1.51
between log-probabilities 1.005 1.25 # the measured step is noisy (most on a loaded machine), and is weighed with what published runs say
between training 1.005 1.25
