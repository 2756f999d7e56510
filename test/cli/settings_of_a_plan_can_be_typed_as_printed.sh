# SPDX-License-Identifier: Apache-2.0
# The line "settings" is a part of a command line: the same plan again, whatever the layout is.
plan() {
    "$GPUHOURS" plan --tokens 30M --ledger off --quiet --search off "$@"
}
for job in "--model llama-3.1-8b --gpu h100 --gpus 8" "--model qwen2.5-7b --method full --gpu a100 --gpus 2" \
    "--model llama-3.1-70b --gpu h200 --gpus 16 --stack nemo"; do
    # shellcheck disable=SC2086 # words
    settings=$(plan $job | sed -n '/^  settings/,/^$/p' | sed 's/^  settings//' | tr -s '\n ' ' ')
    echo "$settings"
    # shellcheck disable=SC2086
    plan $job | grep -E 'GPU hours|settings' >"${TMPDIR:-/tmp}/settings.$$"
    # shellcheck disable=SC2086
    eval "plan $job $settings" | grep -E 'GPU hours|settings' | cmp - "${TMPDIR:-/tmp}/settings.$$" && echo "the same"
    rm -f "${TMPDIR:-/tmp}/settings.$$"
done
