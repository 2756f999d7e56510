# SPDX-License-Identifier: Apache-2.0
printf %s "{\"model_type\":\"llama\",\"hidden_si" >build/cut.json
$GPUHOURS show models build/cut.json
