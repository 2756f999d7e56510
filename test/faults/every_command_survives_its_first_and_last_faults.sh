# SPDX-License-Identifier: Apache-2.0
# The first and the last call of each kind fails in each command; make check-torture lets each fail.
[ -n "$FAULTS" ] || { echo "below the sanitizers: make check-torture SAN=1"; exit 77; }
"$FAULTS/torture" "$GPUHOURS" "$FAULTS/inject.so" "$STAND_INS/trainer" 2 2
