# SPDX-License-Identifier: Apache-2.0
# Forty comparisons: an independent script re-derives cost and order of every row and judges each recommendation.
if ! command -v python3 >/dev/null; then
    echo "python3 is not installed"
    exit 77
fi
python3 test/oracles/hosts_rules.py "$GPUHOURS" data 2026-11-15
