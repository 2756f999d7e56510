# SPDX-License-Identifier: Apache-2.0
# Each broken file ends with one sentence and exit code 3 or 4; no folder and no file is left.
here=build/merge-hostile
. test/cli/tiny_model.inc
rm -rf $here
make_adapter $here/adapter
model=$here/base/model.safetensors
try() {
    echo "$1"
    "$GPUHOURS" merge --model $here/base --adapter $here/adapter --out $here/out
    echo "exit $?"
    ls $here | grep -vxE 'base|adapter'
    make_model $here/base
    make_adapter $here/adapter
}
make_model $here/base

head -c 5 $model >$here/base/cut && mv $here/base/cut $model
try "a file of 5 bytes"
head -c 300 $model >$here/base/cut && mv $here/base/cut $model
try "a file cut off in its header"
head -c -7 $model >$here/base/cut && mv $here/base/cut $model
try "a file cut off in its data"
printf '\377\377\377\377\377\377\377\177{}' >$model
try "a header longer than any file"
printf x >>$model
try "a byte after the end"

data() { head -c $((2 * $(elements "$model_list"))) /dev/zero >>$model; }
put $model "$(header "$model_list" | sed 's/\[64,72\]/[60,68]/')" && data
try "tensors that overlap"
put $model "$(header "$model_list" | sed 's/"shape":\[8,4\]/"shape":[9,4]/')" && data
try "a shape that does not fit its bytes"
put $model "$(header "$model_list" | sed 's/BF16/F8_E5M2/')" && data
try "a type of another size"
put $model "$(header "$model_list" | sed 's/model.norm.weight/model.layers.0.input_layernorm.weight/')" && data
try "a name said twice"
put $model "$(header "$model_list" | sed 's/\[8,4\]/[4,8]/')" && data
try "a weight of the wrong shape"
put $model "$(header "$model_list" | sed 's/model.norm.weight/model.nrom.weight/')" && data
try "a weight that is missing"

head -c -2 $model >$here/base/cut && mv $here/base/cut $model
printf '\300\177' >>$model
try "a NaN weight"
echo "$config" | sed 's/llama/mamba/' >$here/base/config.json
try "an unknown architecture"
echo "$config" | sed 's/llama/olmo2/' >$here/base/config.json
try "an architecture that is known and not trained"
echo "$config" | sed 's/"vocab_size":8/"vocab_size":9/' >$here/base/config.json
try "a config of another model"

echo "$adapter_config" | sed 's/}$/,"use_dora":true}/' >$here/adapter/adapter_config.json
try "an adapter with DoRA"
echo "$adapter_config" | sed 's/"r":2/"r":3/' >$here/adapter/adapter_config.json
try "an adapter of another rank"
head -c -3 $here/adapter/adapter_model.safetensors >$here/cut
mv $here/cut $here/adapter/adapter_model.safetensors
try "an adapter cut off"
rm $here/adapter/adapter_model.safetensors
try "an adapter without weights"
