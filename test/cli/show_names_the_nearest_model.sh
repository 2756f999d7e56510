# SPDX-License-Identifier: Apache-2.0
$GPUHOURS show models lama-3.1-8b
