# SPDX-License-Identifier: Apache-2.0
# gzip, zstd and zip are read wherever offers are: show, hosts and plan; of a zip every table.
folder=$(mktemp -d)
head="provider,instance,region,gpu,gpus,on_demand_usd_per_hour,as_of"
printf '%s\nacme,pod,us-east-1,h100-sxm,8,9,2026-11-10\n' "$head" >"$folder/acme.csv"
cp test/data/hosts/skypilot/aws.csv "$folder/aws.csv"
for tool in gzip zstd python3; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done
gzip -nk "$folder/acme.csv"
zstd -qk "$folder/acme.csv"
(cd "$folder" && python3 -m zipfile -c all.zip acme.csv aws.csv)
job="--model llama-3.1-8b --tokens 100M --gpu h100-sxm --gpus 8 --method lora"
"$GPUHOURS" plan $job | grep -oE '[0-9]+ providers' | sed 's/^/plan: /'
for packing in csv csv.gz csv.zst; do
    "$GPUHOURS" hosts $job --today 2026-11-15 --provider acme --kind on-demand --json --offers "$folder/acme.$packing" |
        tr -d '\n' | sed -nE 's/.*"list_usd_per_instance_hour": *([0-9.]+).*/hosts \1\n/p'
    "$GPUHOURS" plan $job --offers "$folder/acme.$packing" | grep -oE '[0-9]+ providers' | sed 's/^/plan, with acme: /'
done
cd "$folder"
"$OLDPWD/$GPUHOURS" show offers --import all.zip --as-of 2026-11-01 2>&1 | cut -d, -f1-5
head -c 100 all.zip >cut.zip
"$OLDPWD/$GPUHOURS" hosts $job --offers cut.zip 2>&1 >/dev/null
cd "$OLDPWD"
rm -r "$folder"
