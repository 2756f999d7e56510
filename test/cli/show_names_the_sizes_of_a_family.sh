$GPUHOURS show models qwen3
