# SPDX-License-Identifier: Apache-2.0
# A model's tokenizer.json may be a link to a file of the user: merge, whose result is handed on, refuses to copy
# it, and follows the links of Hugging Face's cache.
here=build/merge-links
. test/cli/tiny_model.inc
rm -rf $here
make_adapter $here/adapter
make_model $here/base
echo secret >$here/secret
ln -s ../secret $here/base/tokenizer.json
"$GPUHOURS" merge --model $here/base --adapter $here/adapter --out $here/out
echo "exit $?"
ls $here
rm $here/base/tokenizer.json
mkdir -p $here/cache/blobs $here/cache/snapshots
mv $here/base $here/cache/snapshots/1234
echo '{}' >$here/cache/blobs/abcd
ln -s ../../blobs/abcd $here/cache/snapshots/1234/tokenizer.json
"$GPUHOURS" merge --model $here/cache/snapshots/1234 --adapter $here/adapter --out $here/out >/dev/null
echo "exit $?"
ls $here/out
rm $here/cache/snapshots/1234/tokenizer.json
ln -s ../../../secret $here/cache/snapshots/1234/tokenizer.json
"$GPUHOURS" merge --model $here/cache/snapshots/1234 --adapter $here/adapter --out $here/out2
echo "exit $?"
rm -rf $here
