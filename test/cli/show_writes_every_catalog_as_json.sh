# SPDX-License-Identifier: Apache-2.0
for catalog in models gpus nodes operations offers colocation; do
    $GPUHOURS show $catalog --json | grep -cE '"(source)": "'
    $GPUHOURS show $catalog --json | head -3
done
