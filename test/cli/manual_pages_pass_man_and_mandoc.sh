# SPDX-License-Identifier: Apache-2.0
# A page for the program and for each command; groff's and mandoc's warnings are failures.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C.UTF-8
"$MANUAL" share "$work" 2026-01-31 || exit 1
pages=$(ls "$work/man/man1" | wc -l)
commands=$("$GPUHOURS" help | grep -c '^  [a-z]')
echo "pages beyond the commands': $((pages - commands))"
for heading in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES 'EXIT STATUS' ENVIRONMENT FILES 'SEE ALSO'; do
    grep -L "^\.SH $heading\$" "$work"/man/man1/*.1 | sed "s|.*/|no $heading: |"
done
"$GPUHOURS" help plan | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' | sort -u >"$work/help"
sed -n 's/^\\fB\(\\-\\-[a-z0-9\\-]*\)\\fR.*/\1/p' "$work/man/man1/gpuhours-plan.1" | tr -d '\\' | sort -u >"$work/page"
diff "$work/help" "$work/page" && echo "the page of plan has the options of its help"
tried=
if command -v mandoc >/dev/null; then
    mandoc -Tlint -W warning "$work"/man/man1/*.1
    tried="$tried mandoc"
fi
if command -v man >/dev/null && man --version 2>/dev/null | grep -q '^man 2'; then
    for page in "$work"/man/man1/*.1; do
        man --warnings -l "$page" 2>&1 >/dev/null
    done
    tried="$tried man"
fi
[ "$tried" = " mandoc man" ] || { echo "not both of man-db and mandoc are here, only:$tried"; exit 77; }
