# SPDX-License-Identifier: Apache-2.0
# A limit of 512 bytes a file stands for a full disk: the write fails half way.
here=build/merge-full
. test/cli/tiny_model.inc
rm -rf $here
make_model $here/base
make_adapter $here/adapter
trap '' XFSZ
(ulimit -f 1 && "$GPUHOURS" merge --model $here/base --adapter $here/adapter --out $here/out) >$here/said 2>&1
code=$?
sed 's/out\.[0-9-]*\.tmp/out.PID.tmp/' $here/said
rm $here/said
echo "exit $code"
ls $here
"$GPUHOURS" merge --model $here/base --adapter $here/adapter --out $here/out
