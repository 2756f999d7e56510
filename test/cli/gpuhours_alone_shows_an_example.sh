# Without arguments: the guide, and the forecast of the built-in example.
"$GPUHOURS" | grep -oE '^(gpuhours forecasts|  gpuhours (plan|memory)|  GPU hours|Alternatives|Warnings)'
