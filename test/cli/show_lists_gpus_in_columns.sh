# SPDX-License-Identifier: Apache-2.0
$GPUHOURS show gpus | head -5
