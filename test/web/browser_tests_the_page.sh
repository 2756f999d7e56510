# SPDX-License-Identifier: Apache-2.0
# The page in a headless Chromium, from file: no complaint, no request, the program's numbers.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
case $GPUHOURS in */san*/*) echo "sanitizers do not reach into the page"; exit 77 ;; esac
for tool in node chromium; do command -v $tool >/dev/null || { echo "there is no $tool"; exit 77; }; done
[ -f build/gpuhours.html ] || { echo "there is no page; make web builds it"; exit 77; }
[ -d build/page/node_modules/axe-core ] || { echo "there is no axe-core; make check-page installs it"; exit 77; }
node test/web/browser.mjs page "$GPUHOURS"
