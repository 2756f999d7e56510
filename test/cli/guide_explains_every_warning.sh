# SPDX-License-Identifier: Apache-2.0
# Each code that a plan or a profile can warn with has a section in the guide, and the guide has no others.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^static const struct/,/^};/' src/core/plan/advice*.c src/core/data/profile_warnings.c | grep -oE '\{ "[a-z]+(_[a-z]+)+",' | tr -d '{ ",' | sort > "$work/codes"
sed -n '/^## Warnings/,/^## More/s/^### //p' docs/guide.md | sort > "$work/sections"
[ "$(wc -l < "$work/codes")" -ge 35 ] || echo "the table of codes was not found"
diff "$work/codes" "$work/sections"
