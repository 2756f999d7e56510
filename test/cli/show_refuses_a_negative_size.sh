$GPUHOURS show gpus --catalog test/data/catalog/negative
