# SPDX-License-Identifier: Apache-2.0
# A built-in template, and one of a file with its generation blocks.
cat > "${TMPDIR:-/tmp}/chat.$$" <<END
[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
END
$GPUHOURS template --template chatml --messages "${TMPDIR:-/tmp}/chat.$$" --generation-prompt --spans
echo
$GPUHOURS template --template test/data/templates/dates.jinja --messages - --date 2026-02-03 < "${TMPDIR:-/tmp}/chat.$$"
rm "${TMPDIR:-/tmp}/chat.$$"
