# SPDX-License-Identifier: Apache-2.0
# In a pipe no line of any list has more than 80 columns.
export LC_ALL=C.UTF-8
for catalog in models gpus nodes operations offers colocation; do
    $GPUHOURS show $catalog | grep -nE '^.{81,}$'
done
true
