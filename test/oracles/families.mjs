// SPDX-License-Identifier: Apache-2.0
// families.mjs ENCODE TEXT...: measures data/families.csv and prints it: tokens of each real tokenizer for one of the
// built-in vocabulary, and how far single texts are from that. A text is a line of a file, or 2 kB of it.
//
//     node test/oracles/families.mjs build/fast/encode FILE... > data/families.csv
//
// LLAMA2=FILE names a tokenizer.json of that family, which no npm package has.

import fs from 'node:fs';
import { execFileSync } from 'node:child_process';
const [encode, ...files] = process.argv.slice(2);

const texts = [];
for (const file of files) {
    const lines = fs.readFileSync(file, 'utf8').replaceAll('\x1e', '').split('\n');
    for (let text = '', i = 0; i < lines.length; i++) {
        text += lines[i] + '\n';
        if (text.length > 2000 || (i + 1 === lines.length && text.length > 200)) { texts.push(text); text = ''; }
    }
}
const counts = tokenizer => execFileSync(encode, [tokenizer], { input: texts.map(t => t + '\x1e').join(''), maxBuffer: 1 << 30 })
    .toString().split('\n').slice(0, -1).map(line => line ? line.split(' ').length : 0);
const ours = counts('built-in');
const rows = [['Llama 3', 'llama3 llama31 llama32 llama33', 'llama3'], ['Qwen', 'qwen qwen2 qwen25 qwen3 qwq', 'qwen2_5'],
    ['GPT-2', 'gpt2 gptj gptneo', 'gpt2'], ['cl100k', 'gpt4 gpt35 phi4 cl100k', 'gpt4'], ['o200k', 'gpt4o gptoss o200k', 'gpt4o'],
    ['DeepSeek V3', 'deepseek', 'deepseek_v3'], ['Mistral Nemo', 'mistralnemo nemo tekken ministral pixtral', 'mistral_nemo'],
    ['Mistral', 'mistral mixtral zephyr', 'llama2'], ['Llama 2', 'llama2 phi3 vicuna tinyllama', process.env.LLAMA2 ?? ''], ['Gemma', 'gemma gemma2', 'gemma'], ['Gemma 3', 'gemma3', 'gemma3'],
    ['Command R', 'commandr c4ai aya', 'command_r_plus'], ['Yi', '01ai/yi', 'yi']];
console.log('family,matches,factor,spread,source,as_of');
const day = process.env.AS_OF ?? '2026-11-15', all = [];
for (const [family, matches, model] of rows) {
    const file = model.endsWith('.json') ? model : `build/oracles/models/${model}/tokenizer.json`;
    if (!model || !fs.existsSync(file)) continue;
    const theirs = counts(file);
    const sum = list => list.reduce((a, b) => a + b, 0), factor = sum(theirs) / sum(ours);
    const spread = Math.sqrt(sum(theirs.map((n, i) => ours[i] * (n / ours[i] / factor - 1) ** 2)) / sum(ours));
    all.push(factor);
    console.log(`${family},${matches},${factor.toFixed(4)},${spread.toFixed(4)},` +
        `test/oracles/families.mjs on ${texts.length} texts: instruction records (GPTeacher; GSM8K; Alpaca); licences; C headers,${day}`);
}
const mean = all.reduce((a, b) => a + b, 0) / all.length;
const apart = Math.sqrt(all.reduce((a, b) => a + (b / mean - 1) ** 2, 0) / all.length);
console.log(`others,-,${mean.toFixed(4)},${(apart * 2).toFixed(4)},mean of the families above; spread is twice theirs,${day}`);
