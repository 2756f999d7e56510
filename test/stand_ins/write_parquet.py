# SPDX-License-Identifier: Apache-2.0
"""Writes a Parquet file of row groups with the columns prompt, completion and embedding, for tests of what is read.

    python3 write_parquet.py FILE GROUPS ROWS BYTES [PAGES]

GROUPS row groups of ROWS rows; embedding, which no trainer reads, has BYTES bytes a row that repeat nothing. PAGES (1) is how
often the pages of each column are repeated in a group, packed with gzip where there are several: groups of any size that take
little room on the disk.
"""
import base64
import gzip
import random
import struct
import sys

path, groups, rows, width = sys.argv[1], *map(int, sys.argv[2:5])
pages = int(sys.argv[5]) if len(sys.argv) > 5 else 1
PLAIN, RLE, GZIP, BYTE_ARRAY, UTF8, REQUIRED = 0, 3, 2, 6, 0, 0


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def number(value):
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def fields(*items):
    """A struct of Thrift's compact protocol: (id, type, bytes)."""
    out, before = b"", 0
    for at, kind, value in items:
        out += bytes([(at - before) << 4 | kind]) + value
        before = at
    return out + b"\0"


I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def text(word):
    return varint(len(word)) + word.encode()


def listed(kind, items):
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + varint(len(items))
    return head + b"".join(items)


def noise(seed):
    """Printable bytes that no packer shortens much, the same on every run."""
    return base64.b64encode(random.Random(seed).randbytes(width))[:width]


def page(values):
    body = b"".join(struct.pack("<I", len(value)) + value for value in values)
    packed = gzip.compress(body, 1) if pages > 1 else body
    data = fields((1, I32, number(len(values))), (2, I32, number(PLAIN)), (3, I32, number(RLE)), (4, I32, number(RLE)))
    head = fields((1, I32, number(0)), (2, I32, number(len(body))), (3, I32, number(len(packed))), (5, STRUCT, data))
    return head + packed, len(head) + len(body)


names = ["prompt", "completion", "embedding"]
schema = [fields((4, BINARY, text("schema")), (5, I32, number(len(names))))]
schema += [fields((1, I32, number(BYTE_ARRAY)), (3, I32, number(REQUIRED)), (4, BINARY, text(name)), (6, I32, number(UTF8)))
           for name in names]
with open(path, "wb") as file:
    file.write(b"PAR1")
    row_groups = []
    for group in range(groups):
        numbers = range(group * rows, group * rows + rows)
        columns = [[f"What is {i} and {i}?".encode() for i in numbers], [f"It is {2 * i}.".encode() for i in numbers],
                   [noise(i + 1) for i in numbers]]
        chunks = []
        for name, values in zip(names, columns):
            first, (packed, whole) = file.tell(), page(values)
            for _ in range(pages):
                file.write(packed)
            facts = fields((1, I32, number(BYTE_ARRAY)), (2, LIST, listed(I32, [number(PLAIN)])),
                           (3, LIST, listed(BINARY, [text(name)])), (4, I32, number(GZIP if pages > 1 else 0)),
                           (5, I64, number(rows * pages)), (6, I64, number(whole * pages)),
                           (7, I64, number(len(packed) * pages)), (9, I64, number(first)))
            chunks.append(fields((2, I64, number(first)), (3, STRUCT, facts)))
        row_groups.append(fields((1, LIST, listed(STRUCT, chunks)), (2, I64, number(0)), (3, I64, number(rows * pages))))
    footer = fields((1, I32, number(1)), (2, LIST, listed(STRUCT, schema)), (3, I64, number(groups * rows * pages)),
                    (4, LIST, listed(STRUCT, row_groups)))
    file.write(footer + struct.pack("<I", len(footer)) + b"PAR1")
