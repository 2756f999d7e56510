# SPDX-License-Identifier: Apache-2.0
# A path without a folder is one in the current folder: that ledger is opened, as its log shows, not copied into memory.
command -v python3 > /dev/null || { echo "python3 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=$(realpath "$GPUHOURS")
cd "$work" || exit
for path in ledger.sqlite ./ledger.sqlite "$work/ledger.sqlite"; do
    "$program" plan --ledger "$path" --model llama-3.1-8b --tokens 5M --gpu h100 --search off --quiet > /dev/null
    python3 -c 'import sqlite3; sqlite3.connect("ledger.sqlite").execute("pragma journal_mode = delete")'
    [ -e ledger.sqlite-wal ] && echo "the log is still there"
    "$program" runs --ledger "$path" > /dev/null
    [ -e ledger.sqlite-wal ] && echo "opened in place"
done
