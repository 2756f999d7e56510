# SPDX-License-Identifier: Apache-2.0
# Every relative link of the documents leads to a file, and every link to a section to a heading.
slug() { sed 's/^#* //' | tr 'A-Z' 'a-z' | sed "s/[^a-z0-9 _-]//g; s/ /-/g"; }
for document in *.md docs/*.md; do
    grep -oE '\]\([^)]+\)' "$document" | sed 's/^](//; s/)$//' | grep -v '^http' | sort -u | while read -r link; do
        file=${link%%#*} section=${link#"${link%%#*}"}
        target=$(dirname "$document")/$file
        [ -n "$file" ] || target=$document
        case $target in docs/json.md | ./docs/json.md) continue ;; esac # made by another part of this release
        [ -e "$target" ] || { echo "$document: $link"; continue; }
        [ -z "$section" ] || grep '^#' "$target" | slug | grep -qxF -- "${section#?}" || echo "$document: $link"
    done
done
