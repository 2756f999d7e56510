$GPUHOURS show gpus --data test/data/nowhere
