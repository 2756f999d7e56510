$GPUHOURS show gpu
