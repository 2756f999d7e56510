# SPDX-License-Identifier: Apache-2.0
# A copy of a stack in a file gives the documents of the original: batches, speed, splits.
cat > build/copy.json <<'END'
{"name": "copy", "like": "axolotl", "source": "a copy", "as_of": "2026-11"}
END
for stack in axolotl build/copy.json; do
    name=$(basename $stack .json)
    "$GPUHOURS" plan example --model llama-3.1-8b --gpu h100-sxm --stack $stack --json |
        sed 's|build/copy.json|axolotl|g; s|copy|axolotl|g; /"source"/d; /"as_of"/d' > build/plan-$name.json
    "$GPUHOURS" profile example --stack $stack --context 512 --batching packed --json --out - |
        sed 's|build/copy.json|axolotl|' > build/profile-$name.json
done
diff build/plan-axolotl.json build/plan-copy.json && diff build/profile-axolotl.json build/profile-copy.json &&
    echo "the same"
grep -h '"packer"\|"tokens_per_second": {' build/profile-copy.json build/plan-copy.json
echo "--- a trainer that drops the batches it cannot fill"
"$GPUHOURS" plan example --model llama-3.2-1b --gpu h200 --stack nemo --packing on --context 512 \
    --micro-batch 64 --json | grep -E '"(padding_share|processed_tokens)"'
echo "--- no such trainer"
echo '{"name": "odd", "like": "hf", "trainer": "axolotel"}' > build/odd-stack.json
"$GPUHOURS" plan example --model llama-3.1-8b --stack build/odd-stack.json || echo "exit status $?"
