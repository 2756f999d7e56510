$GPUHOURS show gpus z9 --data test/data/catalog/own
