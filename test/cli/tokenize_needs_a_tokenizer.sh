# SPDX-License-Identifier: Apache-2.0
echo the | $GPUHOURS tokenize
