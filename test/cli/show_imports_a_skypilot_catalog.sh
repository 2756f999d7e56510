# SPDX-License-Identifier: Apache-2.0
# Rows without a believable price are reported and left out; zones of a region become one offer.
"$GPUHOURS" show offers --import test/data/hosts/skypilot/aws.csv --as-of 2026-11-01
