# SPDX-License-Identifier: Apache-2.0
"""Times Python's tokenizers and tiktoken on the records of a file, one a line, with one thread and with all.

    python3 bench/gpu/tokenizer_peers.py TOKENIZER.json RANKS.tiktoken TEXT

The other side of `build/fast/bench/tokenizer TEXT` on the same machine; MB/s of UTF-8 text, special tokens off.
"""
import base64
import os
import subprocess
import sys
import time

tokenizer_file, ranks_file, text_file = sys.argv[1:4]
records = [line for line in open(text_file, encoding="utf-8").read().split("\n") if line]
bytes_all = sum(len(record.encode()) for record in records)
cores = os.cpu_count()


def best(work, runs=3):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        tokens = work()
        times.append(time.perf_counter() - start)
    return tokens, bytes_all / 1e6 / min(times)


def hugging_face():
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(tokenizer_file)
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    return lambda: sum(len(e.ids) for e in encode(records, add_special_tokens=False))


def open_ai(threads):
    import tiktoken
    ranks = {}
    for line in open(ranks_file, "rb"):
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    pattern = (r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|"""
               r"""\s*[\r\n]|\s+(?!\S)|\s+""")
    encoding = tiktoken.Encoding("cl100k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda: sum(len(ids) for ids in encoding.encode_ordinary_batch(records, num_threads=threads))


if len(sys.argv) > 4:  # one thread, in a process of its own: the pool's size is fixed at its start
    print("tokenizers, 1 thread: %d tokens, %.1f MB/s" % best(hugging_face()))
    sys.exit()
print("%.1f MB, %d records, %d cores" % (bytes_all / 1e6, len(records), cores))
subprocess.run([sys.executable, *sys.argv, "one"], env={**os.environ, "RAYON_NUM_THREADS": "1"}, check=True)
print("tokenizers, %d threads: %d tokens, %.1f MB/s" % (cores, *best(hugging_face())))
print("tiktoken cl100k, 1 thread: %d tokens, %.1f MB/s" % best(open_ai(1)))
print("tiktoken cl100k, %d threads: %d tokens, %.1f MB/s" % (cores, *best(open_ai(cores))))
