$GPUHOURS show models lama-3.1-8b
