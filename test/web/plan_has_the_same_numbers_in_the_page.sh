# SPDX-License-Identifier: Apache-2.0
# The module that the page loads gives the documents of the program, for 100 random requests.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
command -v node >/dev/null || { echo "there is no node"; exit 77; }
[ -f build/web/core.wasm ] || { echo "there is no module; make web builds it"; exit 77; }
case $GPUHOURS in */san*) count=12 ;; *) count=100 ;; esac # sanitizers take a second each
node test/web/same.mjs "$GPUHOURS" $count
