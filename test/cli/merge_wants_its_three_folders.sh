"$GPUHOURS" merge --model somewhere
