# SPDX-License-Identifier: Apache-2.0
# A model from its config.json and a stack from its file stand where catalog names do.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
for model in test/data/plan/tiny test/data/plan/tiny/config.json; do
    "$GPUHOURS" plan --model $model --stack test/data/plan/own_stack.json --tokens 1M --gpu t4 \
        --precision fp16 --search off | head -1
done
