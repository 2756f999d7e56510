#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vocabulary.sh PROGRAM: learns data/vocabulary.bin from texts of Debian packages; PROGRAM is tools/vocabulary.c built.
set -eu
tools/deps fortunes-min fortunes vim-runtime perl-doc python3
texts=$(find /usr/share/games/fortunes /usr/share/vim /usr/share/perl /usr/lib/python3.11 -type f \
    \( -path '*/fortunes/*' -o -path '*/doc/*.txt' -o -name 'tutor*utf-8' -o -name '*.pod' -o -name '*.py' \) \
    ! -name '*.dat' ! -name '*.u8' ! -path '*/test/*' ! -path '*/encodings/*' | LC_ALL=C sort)
"$1" 24576 $texts > data/vocabulary.bin
ls -l data/vocabulary.bin
