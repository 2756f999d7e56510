# SPDX-License-Identifier: Apache-2.0
# The numbers of runs, offers and providers that README and guide state are those of the catalogs.
[ -n "$FAULTS" ] || { echo "below the sanitizers: documents are the same"; exit 77; }
thousands() { sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta'; }
says() { grep -q -- "$2" "$1" || echo "$1 does not say \"$2\""; }
# shellcheck disable=SC2046 # words: "1423 runs, 1393 usable …"
set -- $("$GPUHOURS" validate | head -1)
runs=$(echo "$1" | thousands) usable=$(echo "$3" | thousands)
says README.md "^$runs measured runs"
says README.md "state enough ($usable)"
says docs/guide.md "contains $runs measured runs"
says docs/guide.md "predicts the $usable that state"
# The same plan without lengths and packing, which both mention.
range=$("$GPUHOURS" plan --tokens 21.4M --epochs 3 --model llama-3.1-8b --method lora --gpu h100-sxm --gpus 8 \
    --stack hf-peft --ledger off | sed -n 's/.*GPU hours .*(80 % range \(.*\) – \(.*\))/\1 to \2 GPU hours/p')
says README.md "from $range: rows are padded"
says docs/guide.md "takes $range where rows are padded"
offers=$(sed 1d data/offers.csv | wc -l | thousands)
says README.md "on $offers offers of $(sed 1d data/offers.csv | cut -d, -f1 | sort -u | wc -l) providers"
