# SPDX-License-Identifier: Apache-2.0
$GPUHOURS show models test/data/config/mixtral.json
