# SPDX-License-Identifier: Apache-2.0
try() { "$GPUHOURS" runs "$@" 2>&1; echo "exit $?"; }
"$GPUHOURS" plan --model llama-3.1-8b --tokens 5M --gpu h100 >/dev/null
"$GPUHOURS" runs actual 1 --gpu-hours 2 >/dev/null
try explode
try sho 1
try show
try show one
try show 99
try show 8b
try compare 1
try --kind poem
try --since tomorrow
try --since=-1e30
try actual
try actual 1
try actual 1 --gpu-hours 0
try actual 1 --gpu-hours -3
try actual 2 --gpu-hours 3
try actual --plan test/data/rows.arrow.jsonl --gpu-hours 3
try import test/data/nasty.json
try import /no/such/file
try delete 1 99
try --ledger off
