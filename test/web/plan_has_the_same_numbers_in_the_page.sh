# The module that the page loads gives the numbers of the program, to 1e-9.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
command -v node >/dev/null || { echo "there is no node"; exit 77; }
[ -f build/web/core.wasm ] || { echo "there is no module; make web builds it"; exit 77; }
node test/web/same.mjs "$GPUHOURS" build/web/core.wasm
