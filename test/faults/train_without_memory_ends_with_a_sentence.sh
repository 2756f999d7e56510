# SPDX-License-Identifier: Apache-2.0
# Under a limit on address space training ends, with exit code 0 or 5: it never spins. Found where OpenBLAS asked
# forever for a buffer.
case $FAULTS in '') echo "the sanitizers need more address space than there is"; exit 77 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Other commands end too.
(ulimit -v 55000 && timeout -s KILL 60 "$GPUHOURS" show gpus) >"$work/out" 2>&1
[ $? -ne 137 ] || { echo "show does not end"; exit 1; }
for limit in 60000 90000 110000 116000 122000 128000 140000 200000 300000; do
    (ulimit -v $limit && timeout -s KILL 60 "$GPUHOURS" train --random-weights --model test/data/tiny_model \
        --data test/data/tiny_model/rows.jsonl --rank 4 --context 64 --max-steps 1 --quiet --out "$work/$limit") \
        >"$work/out" 2>"$work/err"
    code=$?
    [ $code -eq 0 ] || [ $code -eq 127 ] || { [ $code -eq 5 ] && grep -q '^gpuhours: .*memory' "$work/err"; } || {
        echo "ulimit -v $limit: exit $code"
        cat "$work/err"
        exit 1
    }
done
