# SPDX-License-Identifier: Apache-2.0
printf %s "{\"model_type\":\"mamba\"}" >build/mamba.json
$GPUHOURS show models build/mamba.json
