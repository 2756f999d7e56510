# SPDX-License-Identifier: Apache-2.0
# One's own machine stands beside rented ones, by options or by a row of a file, in hosts and plan.
. test/cli/launch.inc
machine="--machine 2x4090 --machine-usd 5500 --machine-years 5 --machine-use 25% --machine-watts 900 --machine-usd-per-kwh 0.17"
job="--model llama-3.1-8b --method qlora --tokens 5M"
"$program" hosts $job --gpu 4090 --gpus 2 $machine --today 2026-11-01 --explain own/2x-rtx-4090 | grep -E '^own|  (wear|electricity|billed)' |
    sed 's/ [0-9.]* h:/ … h:/'
"$program" plan $job $machine | sed -n '1p;/^  cost/s/.*;/cost:/p'
cat >mine.csv <<'EOF'
provider,gpu,gpus,price_kind,machine_usd,machine_years,machine_use,machine_watts,machine_usd_per_kwh
lab,rtx-4090,2,own,5500,5,25%,900,0.17
EOF
cost() { tr -d '\n ' | sed 's/.*"cost_usd":{"p10":\([0-9.]*\),.*/\1/'; }
first=$("$program" hosts $job --gpu 4090 --gpus 2 $machine --kind own --today 2026-11-01 --json | cost)
second=$("$program" hosts $job --gpu 4090 --gpus 2 --offers mine.csv --kind own --today 2026-11-01 --json | cost)
[ -n "$first" ] && [ "$first" = "$second" ] && echo "the file says the same as the options"
"$program" hosts $job --machine 2x4090 --machine-usd 5500 || echo "exit $?"
"$program" plan $job --machine-use 0.3 || echo "exit $?"
