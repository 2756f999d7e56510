// SPDX-License-Identifier: Apache-2.0
// unicode.mjs FOLDER PACKAGES: prints src/base/unicode_tables.h.
//
// FOLDER holds UnicodeData.txt, DerivedAge.txt, DerivedNormalizationProps.txt and CompositionExclusions.txt
// (Debian: unicode-data 15.0.0 in /usr/share/unicode). PACKAGES holds unicode-16.0.0 and unicode-17.0.0 of npm's
// @unicode: the regular expressions of Hugging Face's library know Unicode 16, its lower case Unicode 17, its normal
// forms Unicode 9 and its punctuation Unicode 8.
//
//     node tools/unicode.mjs /usr/share/unicode build/oracles/node_modules/@unicode

import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, packages] = process.argv.slice(2);
const LAST = 0x110000;
const NORMAL_AGE = 9.0; // the library's normalizers know no younger characters
const CATEGORIES = [ // the order of enum unicode_category
    'Unassigned', 'Uppercase_Letter', 'Lowercase_Letter', 'Titlecase_Letter', 'Modifier_Letter', 'Other_Letter',
    'Nonspacing_Mark', 'Spacing_Mark', 'Enclosing_Mark', 'Decimal_Number', 'Letter_Number', 'Other_Number',
    'Connector_Punctuation', 'Dash_Punctuation', 'Open_Punctuation', 'Close_Punctuation', 'Initial_Punctuation',
    'Final_Punctuation', 'Other_Punctuation', 'Math_Symbol', 'Currency_Symbol', 'Modifier_Symbol', 'Other_Symbol',
    'Space_Separator', 'Line_Separator', 'Paragraph_Separator', 'Control', 'Format', 'Private_Use', 'Surrogate',
];

const read = async (name, version = 16) =>
    (await import(pathToFileURL(path.resolve(packages, `unicode-${version}.0.0`, name)).href)).default;
const rows = name => fs.readFileSync(path.join(folder, name), 'utf8').split('\n')
    .map(line => line.replace(/#.*/, '').trim()).filter(line => line)
    .map(line => line.split(';').map(cell => cell.trim()));
function spread(cell) {
    const [first, last] = cell.split('..').map(hex => parseInt(hex, 16));
    return [first, last ?? first];
}

function print(type, name, values, wide, storage = 'static const') {
    console.log(`${storage} ${type} ${name}[${values.length}] = {`);
    for (let i = 0; i < values.length; i += wide)
        console.log('    ' + values.slice(i, i + wide).join(',') + ',');
    console.log('};\n');
}

// --- classes: category in the low five bits, then white space, word, in Unicode 8 ---

const classes = new Uint8Array(LAST);
for (let i = 1; i < CATEGORIES.length; i++)
    for (const code of await read(`General_Category/${CATEGORIES[i]}/code-points.mjs`))
        classes[code] = i;
for (const code of await read('Binary_Property/White_Space/code-points.mjs')) classes[code] |= 32;
for (const code of await read('Binary_Property/Alphabetic/code-points.mjs')) classes[code] |= 64;
for (let code = 0; code < LAST; code++) {
    const category = classes[code] & 31;
    if ((category >= 6 && category <= 9) || category === 12) classes[code] |= 64; // marks, digits, connectors
}
const ages = new Map();
for (const [[first, last], age] of rows('DerivedAge.txt').map(row => [spread(row[0]), parseFloat(row[1])]))
    for (let code = first; code <= last; code++) {
        ages.set(code, age);
        if (age <= 8) classes[code] |= 128;
    }

const SHIFT = 8, pages = new Map(), index = [], blocks = [];
for (let at = 0; at < LAST; at += 1 << SHIFT) {
    const page = Array.from(classes.slice(at, at + (1 << SHIFT))), key = page.join();
    if (!pages.has(key)) {
        pages.set(key, pages.size);
        blocks.push(...page);
    }
    index.push(pages.get(key));
}
if (pages.size > 256) throw new Error(`${pages.size} pages do not fit a byte`);

// --- decompositions, full ---

const direct = new Map(), combining = new Map(), lower = new Map();
for (const row of rows('UnicodeData.txt')) {
    const code = parseInt(row[0], 16);
    if (!(ages.get(code) <= NORMAL_AGE)) continue;
    if (row[3] !== '0') combining.set(code, Number(row[3]));
    if (row[5]) direct.set(code, { compatible: row[5].startsWith('<'),
        codes: row[5].replace(/<.*> /, '').split(' ').map(hex => parseInt(hex, 16)) });
}
function decompose(code, compatible) {
    const rule = direct.get(code);
    if (!rule || (rule.compatible && !compatible)) return [code];
    return rule.codes.flatMap(part => decompose(part, compatible));
}
const canonical = [...direct.keys()].filter(code => !direct.get(code).compatible);
const compatible = [...direct.keys()]
    .filter(code => decompose(code, true).join() !== decompose(code, false).join());
function printDecompositions(name, codes, whole) {
    const keys = [], pool = [];
    for (const code of codes.sort((a, b) => a - b)) {
        keys.push(`{${code},${pool.length}}`);
        pool.push(...decompose(code, whole));
    }
    keys.push(`{${LAST},${pool.length}}`);
    print('struct unicode_rule', `${name}_rules`, keys, 8);
    print('uint32_t', `${name}_pool`, pool, 14);
}

const excluded = new Set();
for (const row of rows('DerivedNormalizationProps.txt'))
    if (row[1] === 'Full_Composition_Exclusion')
        for (let [code, last] = spread(row[0]); code <= last; code++) excluded.add(code);
const composed = canonical.filter(code => !excluded.has(code) && direct.get(code).codes.length === 2)
    .map(code => [...direct.get(code).codes, code])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);

for (const [code, to] of await read('Simple_Case_Mapping/Lowercase/code-points.mjs', 17)) lower.set(code, to);
const fold = new Map([...await read('Case_Folding/C/code-points.mjs'), ...await read('Case_Folding/S/code-points.mjs')]);
const folds = [...fold].filter(([code, to]) => lower.get(code) !== to);

// --- ranges: scripts, parts of clusters, letters that are none by category, marks that are new in Unicode 9 ---

// A range ends before the next one; value 0 is everything else.
function ranges(values) {
    const list = [];
    for (let code = 0; code < LAST; code++)
        if (values[code] !== (code ? values[code - 1] : -1)) list.push(`{${code},${values[code]}}`);
    return list;
}
const named = fs.readdirSync(path.join(packages, 'unicode-16.0.0/Script')).filter(name => name !== 'Unknown').sort();
const scripts = new Uint8Array(LAST), parts = new Uint8Array(LAST);
for (let i = 0; i < named.length; i++)
    for (const code of await read(`Script/${named[i]}/code-points.mjs`)) scripts[code] = i + 1;
const PARTS = ['Control', 'Extend', 'ZWJ', 'Regional_Indicator', 'Prepend', 'SpacingMark', 'L', 'V', 'T', 'LV', 'LVT'];
for (let i = 0; i < PARTS.length; i++) // the order of enum part
    for (const code of await read(`Grapheme_Cluster_Break/${PARTS[i]}/code-points.mjs`)) parts[code] = i + 1;
for (const code of await read('Binary_Property/Extended_Pictographic/code-points.mjs'))
    if (!parts[code]) parts[code] = PARTS.length + 1;
const traits = new Uint8Array(LAST); // in the order of UNICODE_ALPHABETIC …
for (const [i, name] of ['Other_Alphabetic', 'Other_Uppercase', 'Other_Lowercase'].entries())
    for (const code of await read(`Binary_Property/${name}/code-points.mjs`)) traits[code] |= 1 << i;
const marks = new Uint8Array(LAST);
for (const [code, age] of ages) marks[code] = age === 9 && (classes[code] & 31) >= 6 && (classes[code] & 31) <= 8;

console.log(`// SPDX-License-Identifier: Apache-2.0
// unicode_tables: classes, scripts, decompositions and case mappings; made by tools/unicode.mjs.
//
// Long because it is a table. Classes and scripts are Unicode 16.0, lower case 17.0,
// decompositions 9.0: as Hugging Face tokenizers 0.23.2 has them.

#pragma once

#include <stdint.h>

// clang-format off

struct unicode_rule {
    uint32_t code, at; // its mapping is pool[at] up to the next rule's at
};

struct unicode_composition {
    uint32_t first, second, whole;
};

struct unicode_case {
    uint32_t code, to;
};

struct unicode_range { // up to the next range
    uint32_t first, value;
};
`);
print('uint8_t', 'unicode_class_index', index, 40, 'const');
print('uint8_t', 'unicode_class_blocks', blocks, 40, 'const');
print('uint32_t', 'combining_classes', [...combining].sort((a, b) => a[0] - b[0]).map(([c, k]) => c * 256 + k), 14);
printDecompositions('canonical', canonical, false);
printDecompositions('compatible', compatible, true);
print('struct unicode_composition', 'compositions', composed.map(triple => `{${triple}}`), 7);
const cases = map => [...map].sort((a, b) => a[0] - b[0]).map(pair => `{${pair}}`);
print('struct unicode_case', 'lower_cases', cases(lower), 9);
print('struct unicode_case', 'other_folds', cases(folds), 9);
print('struct unicode_range', 'script_ranges', ranges(scripts), 9);
print('char *const', 'script_names', ['Unknown', ...named].map(name => `"${name}"`), 6);
print('struct unicode_range', 'part_ranges', ranges(parts), 9);
print('struct unicode_range', 'trait_ranges', ranges(traits), 9);
print('struct unicode_range', 'young_marks', ranges(marks), 9);
