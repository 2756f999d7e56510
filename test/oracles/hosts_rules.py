# SPDX-License-Identifier: Apache-2.0
"""Re-derives cost and order of every row of `gpuhours hosts --json`, and checks each recommendation.

Reads the catalog's CSV files itself and shares no code with the program. Usage:
hosts_rules.py GPUHOURS DATA TODAY [EVERY]; takes every so-manyth comparison, prints what breaks a rule, and how much was checked.
"""

import csv
import datetime
import json
import math
import os
import subprocess
import sys
import tempfile

program, data, today = sys.argv[1:4]
every = int(sys.argv[4]) if len(sys.argv) > 4 else 1
broken = []
checked = {"comparisons": 0, "rows": 0, "recommended": 0, "nothing": 0}

JOBS = [
    "--tokens 50M --model llama-3.1-8b --method lora --gpu h100-sxm --gpus 1 --stack hf-peft",
    "--tokens 100M --model llama-3.1-70b --method qlora --gpu h100-sxm --gpus 8 --stack hf-peft",
    "--tokens 1B --model llama-3.1-70b --method full --gpu h100-sxm --gpus 64 --stack torchtune",
    "--tokens 10M --model llama-3.2-1b --method full --gpu h100-sxm --gpus 1",
    "--tokens 50M --model llama-3.1-405b --method lora --gpu h100-sxm --gpus 32 --stack torchtune",
]
OPTIONS = [
    "",
    "--kind on-demand,own --machine 8xh100-sxm --machine-usd 250000 --machine-years 4 --machine-use 40% "
    "--machine-watts 8000 --machine-usd-per-kwh 0.15",
    "--region us-east --kind on-demand",
    "--deadline 12h",
    "--budget 300",
    "--runs-per-month 100",
    "--queue 10min,1h,6h --deadline 24h --kind on-demand,spot",
    "--hour-is-worth 25 --data-at aws:us-east-1 --data-bytes 200GB",
]


def table(name):
    with open(os.path.join(data, name), newline="") as file:
        return list(csv.DictReader(file))


offers = {}
for offer in table("offers.csv"):
    offers.setdefault((offer["provider"], offer["instance"], offer["region"]), offer)
services = table("managed.csv")
terms_of_storage = table("billing.csv")
storage_of_any = next(float(t["storage_usd_per_gb_month"]) for t in terms_of_storage if t["provider"] == "*")
networks = {node["name"] for node in table("nodes.csv") if node["network_bytes_per_s_per_gpu"]}


def age(as_of):
    """Days; None without a date. A year is its July 1st, a month its 15th."""
    if not as_of:
        return None
    full = as_of + {4: "-07-01", 7: "-15", 10: ""}[len(as_of)]
    return (datetime.date.fromisoformat(today) - datetime.date.fromisoformat(full)).days


def near(a, b):
    return a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b)) + 1e-9


def tell(where, row, what):
    broken.append(f"{where}: {row['provider']} {row['instance']} {row['region']} {row['kind']}: {what}")


def may_recommend(row, options):
    """The rules, from the catalog alone; the reason against it, or None."""
    if row["kind"] == "colocation":
        return "estimate"
    if row["kind"] == "managed":
        return "service"
    if row["kind"] == "own":
        return "network" if row["instances"] > 1 else None
    offer = offers[(row["provider"], row["instance"], row["region"])]
    kind = offer["price_kind"]
    if kind in ("auction", "median") or (kind != "firm" and row["kind"] == "on-demand"):
        return kind
    date = offer["as_of"]
    if row["kind"] == "spot":
        date = offer["spot_as_of"] or date
    if row["kind"].startswith("reserved"):
        date = offer["reserved_as_of"] or date
    days = age(date)
    if days is None or days < 0 or days > 180:
        return "date"
    if offer["region"] in ("", "global") or "israel" in offer["region"]:
        return "country"
    if "us-east" in options.split("--data-at")[0] and not near_us_east(offer["region"]):
        return "region"
    if row["instances"] > 1 and f"{row['provider']}/{row['instance']}" not in networks:
        return "network"
    return None


def near_us_east(region):
    words = ("us-east", "eastus", "ashburn", "newyork", "ny2", "atlanta", "dulles", "beltsville",
             "culpeper", "maryland", "virginia", "carolina", "florida", "georgia", "us-southeast")
    flat = region.lower().replace(" ", "")
    return flat in ("us", "northamerica") or any(word in flat for word in words)


def storage_price(row):
    """Of the provider's first row with a price that fits the instance, else of any provider."""
    if row["kind"] in ("colocation", "own"):
        return 0
    for terms in terms_of_storage:
        if terms["provider"] == row["provider"] and row["instance"].startswith(terms["instance"]):
            if terms["storage_usd_per_gb_month"]:
                return float(terms["storage_usd_per_gb_month"])
            break
    return storage_of_any


def service(where, row):
    if not near(row["managed_tokens"] / 1e6 * row["usd_per_million_tokens"], row["cost_usd"]["p50"]):
        tell(where, row, "does not cost its tokens")
    if not any(s["provider"] == row["provider"] and s["service"] == row["instance"] and
               near(float(s["usd_per_million_tokens"]), row["usd_per_million_tokens"])
               for s in services):
        tell(where, row, "has not the price of the catalog")
    return row["rank_usd"]


def cost(where, row, document):
    if row["kind"] == "managed":
        return service(where, row)
    price, move = row["price"], row["move"]
    moved = move["in_hours"] + move["out_hours"]
    billed = row["billed_hours"]["p50"]
    if row["kind"] in ("on-demand", "own"):
        step, hours = price["granularity_seconds"], row["run_hours"]["p50"] + moved
        if row["price_kind"] == "block":  # bought before the run: it has to hold the slow end
            hours = row["run_hours"]["p90"] + moved
        expected = max(price["minimum_seconds"], math.ceil(hours * 3600 / step - 1e-9) * step)
        if row["price_kind"] == "block" and expected > 14 * 86400:
            expected = math.ceil(expected / (7 * 86400)) * 7 * 86400
        if not near(billed * 3600, expected):
            tell(where, row, f"bills {billed * 3600} s, {expected} s are right")
    if row["kind"] == "spot" and billed < moved:
        tell(where, row, "does not bill the hours in which data moves")
    if row["kind"].startswith("reserved"):
        hours = row["run_hours"]["p50"] + moved
        sets = max(1, math.ceil(document["runs_per_month"] * hours / 730 - 1e-9))
        if not near(billed, sets * 730 / document["runs_per_month"]):
            tell(where, row, "does not share the month among its runs")
    if row["kind"] == "own":
        if not near(price["usd_per_instance_hour"], 250000 / (4 * 8760 * 0.4) + 8 * 0.15):
            tell(where, row, "does not cost its wear and its electricity")
    elif row["kind"] != "colocation":
        offer = offers[(row["provider"], row["instance"], row["region"])]
        column = {"on-demand": "on_demand", "spot": "spot", "reserved-1y": "reserved_1y",
                  "reserved-3y": "reserved_3y"}[row["kind"]] + "_usd_per_hour"
        if not near(price["list_usd_per_instance_hour"], float(offer[column])):
            tell(where, row, "has not the price of the catalog")
        if row["price_kind"] != offer["price_kind"] or (row["notes"] or "") != offer["note"]:
            tell(where, row, "does not show what its price is")
    usd = row["instances"] * price["usd_per_instance_hour"] * billed
    kept, hours = row["storage"], row["run_hours"]["p50"] + moved
    rent = storage_price(row)
    if not near(kept["usd_per_gb_month"], rent):
        tell(where, row, f"stores at {kept['usd_per_gb_month']}, the catalog says {rent}")
    stored = kept["bytes"] / 1e9 * rent * hours / 730
    if not near(kept["usd"]["p50"], stored):
        tell(where, row, "storage is not billed for the hours of the job")
    if not near(usd + move["in_usd"] + move["out_usd"] + stored, row["cost_usd"]["p50"]):
        tell(where, row, "cost is not that of its terms")
    rank = (row["cost_usd"]["p50"] + usd * (math.exp(price["log_spread"] ** 2 / 2) - 1) +
            row["elapsed_hours"]["p50"] * document["hour_is_worth_usd"])
    if not near(rank, row["rank_usd"]):
        tell(where, row, "rank_usd is not that of its terms")
    return rank


def check(where, document, options):
    rows, best = document["rows"], None
    order = []
    for row in rows:
        rank = cost(where, row, document)
        meets = row["in_time"] and row["in_budget"]
        against = may_recommend(row, options)
        if bool(against) != bool(row["not_recommended"]):
            tell(where, row, f"not_recommended is {row['not_recommended']}, by the catalog {against}")
        safe = row["chance_in_time"] is None or row["chance_in_time"] >= 0.9
        budget = document["budget_usd"]
        sure = budget is None or row["cost_usd"]["p90"] <= budget
        takes = meets and not against
        order.append((-(meets + takes + (takes and safe and sure)), rank))
        checked["rows"] += 1
        trust = (row.get("time", {}).get("stable"), safe, sure)
        if takes and (best is None or (trust, -rank) > best[:2]):
            best = (trust, -rank, row)
    for a, b in zip(order, order[1:]):
        if a[0] > b[0] or (a[0] == b[0] and a[1] > b[1] * (1 + 1e-9) + 1e-9):
            broken.append(f"{where}: rows are not in order")
            break
    for name, at in document["picks"].items():
        if name != "reason" and at is not None and rows[at]["not_recommended"]:
            tell(where, rows[at], f"is picked as {name}, though {rows[at]['not_recommended']}")
    if document["picks"]["fastest_in_budget"] is not None and document["budget_usd"] is None:
        broken.append(f"{where}: fastest in budget without a budget")
    at = document["picks"]["recommended"]
    if (at is None) != (best is None):
        broken.append(f"{where}: recommends {at}, but the best is {best and best[2]['instance']}")
    elif at is not None:
        checked["recommended"] += 1
        same = (rows[at]["provider"], rows[at]["instance"], rows[at]["kind"])
        if not near(rows[at]["rank_usd"], -best[1]):
            tell(where, best[2], f"is better than {same}")
    else:
        checked["nothing"] += 1


with tempfile.TemporaryDirectory() as folder:
    for index, job in enumerate(JOBS):
        plan = os.path.join(folder, f"{index}.json")
        with open(plan, "w") as file:
            subprocess.run([program, "plan", *job.split(), "--json"], stdout=file, check=True)
        for options in OPTIONS[index % every::every]:
            where = f"job {index + 1} {options}"
            result = subprocess.run(
                [program, "hosts", "--plan", plan, "--today", today, "--json", *options.split()],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if result.returncode not in (0, 1) or not result.stdout:
                broken.append(f"{where}: exit {result.returncode}, {result.stderr.decode()}")
                continue
            check(where, json.loads(result.stdout), options)
            checked["comparisons"] += 1

for line in broken[:40]:
    print(line)
print(len(broken), "rules broken")
wanted = len(JOBS) * (len(OPTIONS) // every)
print("all" if checked["comparisons"] >= wanted else "some", "comparisons,",
      "enough rows" if checked["rows"] > 500 * wanted else "few rows")
