# SPDX-License-Identifier: Apache-2.0
# Twenty of forty comparisons (below sanitizers ten): an independent script re-derives cost and order of every row and judges each recommendation.
if ! command -v python3 >/dev/null; then
    echo "python3 is not installed"
    exit 77
fi
case $GPUHOURS in */san/*) every=4 ;; *) every=2 ;; esac
python3 test/oracles/hosts_rules.py "$GPUHOURS" data 2026-11-15 $every
