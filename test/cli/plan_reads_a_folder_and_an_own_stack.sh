# A model from its config.json and a stack from its file stand where catalog names do.
for model in test/data/plan/tiny test/data/plan/tiny/config.json; do
    "$GPUHOURS" plan --model $model --stack test/data/plan/own_stack.json --tokens 1M --gpu t4 \
        --precision fp16 --search off | head -1
done
