# SPDX-License-Identifier: Apache-2.0
$GPUHOURS show gpus "NVIDIA H100 80GB HBM3"
