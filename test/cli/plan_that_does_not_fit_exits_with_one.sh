# SPDX-License-Identifier: Apache-2.0
# The plan is printed all the same, and what fits instead.
"$GPUHOURS" plan --model llama-3.1-70b --method full --tokens 10M --gpu h100 --gpus 1 > "${TMPDIR:-/tmp}/plan.$$"
code=$?
grep -c 'DOES NOT FIT' "${TMPDIR:-/tmp}/plan.$$"
grep -o '^Alternatives' "${TMPDIR:-/tmp}/plan.$$"
rm "${TMPDIR:-/tmp}/plan.$$"
exit $code
