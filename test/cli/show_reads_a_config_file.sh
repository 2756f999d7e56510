$GPUHOURS show models test/data/config/mixtral.json
