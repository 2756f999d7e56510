$GPUHOURS show gpus h10
