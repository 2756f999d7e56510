# SPDX-License-Identifier: Apache-2.0
# Built from docs/guide.md: man has no warnings, mandoc no errors; headings and code are there.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$work/gpuhours-guide.7
tools/manpage docs/guide.md gpuhours-guide 7 > "$page"
[ "$(grep -c '^\.S[HS] ' "$page")" -eq $(($(grep -cE '^##+ ' docs/guide.md) + 2)) ] || echo "a heading is missing"
[ "$(grep -c '^\.EX' "$page")" = "$(grep -c '^\.EE' "$page")" ] || echo "code does not end"
grep -qF '\-\-profile profile.json' "$page" || echo "no command in it"
command -v man > /dev/null || { echo "there is no man"; exit 77; }
LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 > /dev/null
! command -v mandoc > /dev/null || mandoc -Tlint -W warning "$page" 2>&1 | sed "s|$work/||"
