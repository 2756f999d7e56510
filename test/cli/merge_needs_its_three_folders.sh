# SPDX-License-Identifier: Apache-2.0
"$GPUHOURS" merge --model somewhere
