# SPDX-License-Identifier: Apache-2.0
# 4/2 · B A of ones at rank 2 is 4: sixteen weights become 4.0 (bf16 4080), all others stay 0.
here=build/merge-adds
. test/cli/tiny_model.inc
rm -rf $here
make_model $here/base
make_adapter $here/adapter
"$GPUHOURS" merge --model $here/base --adapter $here/adapter --out $here/out || exit
ls $here $here/out
header=$(od -An -tu8 -N8 $here/out/model.safetensors)
tail -c +$((9 + header)) $here/out/model.safetensors | od -An -v -tx2 | tr -s ' ' '\n' |
    grep . | sort | uniq -c | awk '{ print $1, $2 }'
rm -rf $here/out
"$GPUHOURS" merge --json --model $here/base --adapter $here/adapter --out $here/out
