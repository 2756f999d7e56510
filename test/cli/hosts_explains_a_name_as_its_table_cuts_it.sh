# SPDX-License-Identifier: Apache-2.0
# "provider/instance" may end where the table cut it: in an ellipsis, or in ASCII's "~".
job="--model llama-3.1-8b --tokens 100M --gpu h100 --gpus 8 --today 2026-11-15"
shown=$(COLUMNS=60 "$GPUHOURS" hosts $job | grep '^azure ' | head -1 | awk '{ print $1 "/" $2 }')
echo "$shown"
for name in "$shown" "${shown%…}~" "${shown%…}..." "${shown#azure/}" "$shown/on-demand"; do
    "$GPUHOURS" hosts $job --explain "$name" | head -1
done
"$GPUHOURS" hosts $job --explain 'azure/Standrad…' | head -1
COLUMNS=200 "$GPUHOURS" hosts $job | grep '…'
true
