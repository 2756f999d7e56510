#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""profile_share.py TEXT...: the rate of `gpuhours profile` as a share of the tokenizer's own, for each family and text.

TEXT is a file of bench/texts.py. Its records become JSON Lines with one text each; both rates are MB of text per second of
processor time, one thread, cold, best of 3 (of the program 5), without the start of the program. Needs `make check-oracles` (the tokenizers) and
build/fast/bench/tokenizer (`make bench ONLY=tokenizer`). MODELS picks families.
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

FAMILIES = ['llama3', 'gpt4o', 'qwen3', 'gemma3', 'deepseek_v3', 'llama2', 'gpt2']


def processor_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_rows(path, records):
    with open(path, 'w') as out:
        for record in records:
            out.write(json.dumps({'text': record}, ensure_ascii=False) + '\n')


def profile_seconds(model, path):
    tokenizer = f'build/oracles/models/{model}/tokenizer.json'
    return min(processor_seconds(['build/gpuhours', 'profile', path, '--tokenizer', tokenizer, '--template', 'none', '--labels', 'all',
                                  '--threads', '1', '--ledger', 'off', '--json']) for _ in range(5))


def tokenizer_rate(model, text):
    lines = subprocess.run(['build/fast/bench/tokenizer', text], env={**os.environ, 'MODELS': model}, check=True, capture_output=True, text=True)
    return float(re.search(r'cold +([0-9.]+)', lines.stdout).group(1))


with tempfile.TemporaryDirectory() as work:
    rows, short = work + '/rows.jsonl', work + '/short.jsonl'
    for text in sys.argv[1:]:
        records = [record for record in open(text, encoding='utf8').read().split('\x1e') if record.strip()]
        megabytes = sum(len(record.encode()) for record in records) / 1e6
        write_rows(rows, records)
        write_rows(short, records[:5])
        for model in os.environ.get('MODELS', ','.join(FAMILIES)).split(','):
            alone = tokenizer_rate(model, text)
            rate = megabytes / (profile_seconds(model, rows) - profile_seconds(model, short))
            print(f'{os.path.basename(text):8} {model:12} profile {rate:6.1f}  tokenizer {alone:6.1f} MB/s  {100 * rate / alone:4.0f} %', flush=True)
