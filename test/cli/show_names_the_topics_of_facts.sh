$GPUHOURS show operations weather
