echo the | $GPUHOURS tokenize
