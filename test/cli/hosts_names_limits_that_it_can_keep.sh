# SPDX-License-Identifier: Apache-2.0
# Where no offer meets the limits, the deadline or the budget that hosts names leads to the offer that it names.
try() { # LIMITS OPTION...
    limits=$1
    shift
    echo "hosts $* $limits"
    # shellcheck disable=SC2086
    said=$("$GPUHOURS" hosts --today 2026-11-15 "$@" $limits 2>&1 >/dev/null)
    for option in deadline budget; do
        part=$(echo "$said" | tr ';' '\n' | grep "with --$option")
        value=$(echo "$part" | sed 's/.*with --[a-z]* \([0-9.]*h*\) or .*/\1/')
        name=$(echo "$part" | sed 's/.* or [a-z]* \(.*\) does.*/\1/')
        [ -n "$value" ] || continue
        other=$(echo "$limits" | sed "s/--$option [^ ]*/--$option $value/")
        # shellcheck disable=SC2086
        COLUMNS=200 "$GPUHOURS" hosts --today 2026-11-15 "$@" $other >"$work/out" 2>&1
        echo "  another $option: exit $?"
        sed -n 's/^ *best choice/best choice/p' "$work/out" | grep -q "$name" && echo "  the offer that was named"
    done
}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
try "--deadline 3min --budget 2000" --model llama-3.1-8b --tokens 5B --packing on --method full --kind reserved
try "--deadline 20h" --model llama-3.1-70b --tokens 200M --method qlora --kind reserved --provider gcp --gpus 1
try "--deadline 3min" --model llama-3.1-8b --tokens 21.4M --queue 10min,1h,6h
try "--budget 0.02" --model llama-3.1-8b --tokens 21.4M --gpu h100
try "--deadline 10h --budget 200" --model qwen2.5-7b --tokens 2B --method full --gpu a100 --kind on-demand,reserved
