# SPDX-License-Identifier: Apache-2.0
# Files dropped onto the page give the profile and the plan that the program makes of them.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
command -v node >/dev/null || { echo "there is no node"; exit 77; }
[ -f build/web/core.wasm ] || { echo "there is no module; make web builds it"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
node test/web/count.mjs "$GPUHOURS" "$folder"
