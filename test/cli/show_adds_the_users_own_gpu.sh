# SPDX-License-Identifier: Apache-2.0
$GPUHOURS show gpus z9 --data test/data/catalog/own
