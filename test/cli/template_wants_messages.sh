$GPUHOURS template --template chatml
