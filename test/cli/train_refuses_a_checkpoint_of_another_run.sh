# A folder that holds another run's checkpoints is not written over.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked="train --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --quiet \
    --context 64 --max-steps 4 --out $work/out"
"$GPUHOURS" $asked --rank 4 >/dev/null
"$GPUHOURS" $asked --rank 4 --rate 0.5 2>&1 >/dev/null | sed "s|$work|WORK|"
