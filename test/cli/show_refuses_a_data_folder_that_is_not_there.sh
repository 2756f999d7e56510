$GPUHOURS show gpus --catalog test/data/nowhere
