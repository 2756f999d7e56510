# SPDX-License-Identifier: Apache-2.0
# A few kills of each; make check-kills has more, of train too.
for what in watch pilot profile units ledger; do
    sh test/faults/kills $what 6 1 || exit 1
done
