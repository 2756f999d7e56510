# SPDX-License-Identifier: Apache-2.0
# Files dropped onto the page give the profile and the plan that the program makes of them.
[ -n "$FAULTS" ] || { echo "below the sanitizers: the page is compiled without them"; exit 77; }
command -v node >/dev/null || { echo "there is no node"; exit 77; }
[ -f build/web/core.wasm ] || { echo "there is no module; make web builds it"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
node test/web/count.mjs "$GPUHOURS" "$folder"
