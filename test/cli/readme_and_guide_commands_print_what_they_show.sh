# SPDX-License-Identifier: Apache-2.0
[ "$GPUHOURS" = build/gpuhours ] || { echo "the README shows the plain build"; exit 77; }
tools/readme check
