# SPDX-License-Identifier: Apache-2.0
$GPUHOURS show gpus --catalog test/data/catalog/negative
