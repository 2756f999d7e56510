$GPUHOURS show gpus --data test/data/catalog/negative
