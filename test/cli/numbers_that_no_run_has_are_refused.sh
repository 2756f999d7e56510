# SPDX-License-Identifier: Apache-2.0
# Numbers of an audit that were once shown as nan, inf or -9,223,372,036,854,775,808: refused, or shown without these.
text=$(mktemp)
trap 'rm -f "$text"' EXIT
for numbers in "plan --mean-length 5e-324" "hosts --retries 1e300" "hosts --startup 1e300" "hosts --failures-per-gpu-hour 1e300" \
    "hosts --storage 1e300" "hosts --storage 1e-300" "hosts --price 1e-300" "hosts --budget=-0"; do
    set -- $numbers
    command=$1 && shift
    "$GPUHOURS" "$command" --model llama-3.1-8b --tokens 1M --gpu h100 --ledger off "$@" >"$text" 2>&1
    code=$?
    ! grep -qwE -- 'nan|-nan|inf|9,223,372,036,854,775,808|\$-0.00' "$text" || echo "$numbers: $(grep -m1 -wE 'nan|inf|\$-0.00' "$text")"
    [ $code -eq 2 ] && cat "$text" || echo "$numbers: exit $code"
done
