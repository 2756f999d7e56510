$GPUHOURS show gpus | head -5
