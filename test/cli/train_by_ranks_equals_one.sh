# SPDX-License-Identifier: Apache-2.0
# The same global batch by one rank, and by two and four that --ranks starts: losses within 1e-6. A run that was
# stopped goes on with another number of ranks likewise, and with the same number to the same bits.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked="train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --quiet --labels completion \
    --context 64 --accumulation 4 --epochs 8 --rate 0.003 --held-out 10% --rank 4 --dropout 0.1 --save-every 5 --ledger off"
compare() { # of the losses of all steps
    paste "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" | awk -F'"loss":' -v name="$2" '
        { a = $2 + 0; b = $3 + 0; d = (a - b) / a; if (d < 0) d = -d; if (d > worst) worst = d }
        END { print name ": " NR " steps, " (worst < 1e-6 ? "same losses" : "losses differ by " worst) }'
}
try() { # METHOD STRAIGHT RESUMED: numbers of ranks of whole runs, and of those that continue a run of two
    for ranks in $2; do
        "$GPUHOURS" $asked --method $1 --ranks $ranks --out "$work/$1-$ranks" >"$work/said" || cat "$work/said"
        [ $ranks = 1 ] || compare $1-1 $1-$ranks
    done
    # Stopped in the middle, by the signal that schedulers send to what they started.
    "$GPUHOURS" $asked --method $1 --ranks 2 --out "$work/$1-stopped" >/dev/null 2>"$work/said" &
    until grep -q '"step":2,' "$work/$1-stopped/metrics.jsonl" 2>/dev/null; do sleep 0.01; done
    kill -TERM $!
    wait $!
    echo "exit $?: $(sed 's/step [0-9]* of/step N of/' "$work/said")"
    for ranks in $3; do
        cp -r "$work/$1-stopped" "$work/$1-stopped-$ranks"
        "$GPUHOURS" $asked --method $1 --ranks $ranks --out "$work/$1-stopped-$ranks" >"$work/said" || cat "$work/said"
        compare $1-1 $1-stopped-$ranks
    done
}
try lora "1 2" "2 4"
cmp "$work/lora-2/adapter_model.safetensors" "$work/lora-stopped-2/adapter_model.safetensors" && echo "the same bits with the same ranks"
try full "1 4" 1 # ranks share the states of the optimizer
