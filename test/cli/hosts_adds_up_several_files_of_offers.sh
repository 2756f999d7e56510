# SPDX-License-Identifier: Apache-2.0
# --offers may be given twice: rows of both files compete, and a row of the second replaces one of the first.
folder=$(mktemp -d)
head="provider,instance,region,gpu,gpus,on_demand_usd_per_hour,as_of"
printf '%s\nacme,pod,us-east-1,h100-sxm,8,9,2026-11-10\n' "$head" >"$folder/a.csv"
printf '%s\nbest,pod,us-east-1,h100-sxm,8,8,2026-11-10\n' "$head" >"$folder/b.csv"
printf '%s\nacme,pod,us-east-1,h100-sxm,8,7,2026-11-12\n' "$head" >"$folder/c.csv"
job="--model llama-3.1-8b --tokens 100M --gpu h100 --gpus 8 --today 2026-11-15 --provider acme,best --kind on-demand"
list() {
    "$GPUHOURS" hosts $job --json "$@" | tr -d '\n' | tr '{' '\n' |
        sed -nE 's/.*"list_usd_per_instance_hour": *([0-9.]+).*/\1/p'
}
echo "two files"; list --offers "$folder/a.csv" --offers="$folder/b.csv"
echo "and a newer price"; list --offers "$folder/a.csv" --offers "$folder/b.csv" --offers "$folder/c.csv"
printf '%s\nacme,pod,us-east-1,h100-sxm,8,7,\n' "$head" >"$folder/d.csv"
echo "without a date"
"$GPUHOURS" hosts $job --provider acme --offers "$folder/d.csv" 2>&1 >/dev/null | sed "s,$folder/,," | sed -E 's/\$[0-9.]+/$…/'
rm -r "$folder"
