# SPDX-License-Identifier: Apache-2.0
# Other kinds, broken and missing documents end with one sentence and the exit code of their kind.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
"$GPUHOURS" plan --model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8 --search off --json \
    >"$folder/plan.json"
program=$GPUHOURS
cd "$folder" || exit 1
case $program in /*) ;; *) program=$OLDPWD/$program ;; esac
printf '{"kind": "plan", "version": 1,\n "workload": {"examples"' >cut.json
echo '{"kind":"memory","version":1}' >memory.json
echo '{"kind":"plan","version":9}' >later.json
echo '[]' >list.json
: >empty.json
try() {
    echo "report $*"
    "$program" report "$@" 2>&1
    echo "exit $?"
}
try
try nowhere.json
try cut.json
try memory.json
try later.json
try list.json
try empty.json
try plan.json --html page.html --csv
try plan.json --htlm page.html
try plan.json --html nowhere/page.html
ls
