# SPDX-License-Identifier: Apache-2.0
# Progress over units: lines of JSON after each unit, in which what an earlier run has counted is done; a bar on a terminal.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
example=$PWD/data/example.jsonl tokenizer=$PWD/test/data/small_tokenizer.json
cd "$work" || exit
asked="$program profile $example --tokenizer $tokenizer --template chatml --ledger off --units counted --shard 1/1"
shown() { sed 's/"bytes_per_second":[0-9][0-9.e+]*,"seconds_left":[0-9.e-]*}/"bytes_per_second":RATE,"seconds_left":TIME}/'; }
echo "== of all units"
$asked --unit-size 20KB --json | shown >lines
sed -n '1p;$p' lines
echo "== of the last two, the others are there"
rm "$(ls counted/*.unit | sed -n 3p)" "$(ls counted/*.unit | sed -n 7p)"
$asked --unit-size 20KB --json | shown | sed 's/"unit":[0-9]*/"unit":ONE/; s/bytes":[0-9]*/bytes":SIZE/g'
echo "== on a terminal"
rm -r counted
cat >watch.py <<'END'
import os, pty, signal, subprocess, sys, time
screen, terminal = pty.openpty()
worker = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal)
os.close(terminal)
for _ in range(3000):
    if os.path.isdir("counted") and sum(name.endswith(".unit") for name in os.listdir("counted")) > 3:
        break
    time.sleep(0.02)
worker.send_signal(signal.SIGSTOP)
time.sleep(0.6)  # the bar shows after half a second
worker.send_signal(signal.SIGCONT)
try:
    while piece := os.read(screen, 4096):
        sys.stdout.buffer.write(piece)
except OSError:  # the worker has ended
    pass
END
TERM=xterm COLUMNS=80 python3 watch.py $asked --unit-size 700 | tr '\r' '\n' | grep -a left | head -1 |
    sed 's/^[^u]*unit [0-9]* of 271 .* [0-9]* % of/unit N of 271 BAR SHARE of/; s/, .*\/s, .* left.*/, RATE, TIME left/'
