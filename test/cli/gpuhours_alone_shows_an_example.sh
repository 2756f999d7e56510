# SPDX-License-Identifier: Apache-2.0
# Without arguments: the guide, and the forecast of the built-in example.
"$GPUHOURS" | grep -oE '^(gpuhours forecasts|  plan +forecast|  memory +show|  GPU hours|Alternatives|Warnings)'
