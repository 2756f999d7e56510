# SPDX-License-Identifier: Apache-2.0
$GPUHOURS show models | grep -E "^(model |llama-3.1|mixtral|gpt-2)"
