// SPDX-License-Identifier: Apache-2.0
// fixtures.mjs: writes the small tokenizers of test/data/tokenizers and what Hugging Face's library makes
// of test/data/nasty.json with each. Run by hand, from the root of the tree, after `make check-oracles`:
//
//     node test/oracles/fixtures.mjs
//
// Each tokenizer is learned here from a few sentences, so that nothing in it is anybody's model. An .ids
// file has one line for each string: token ids with the bytes they stand for, as id:start-end.

import fs from 'node:fs';
import { createRequire } from 'node:module';
const require = createRequire(process.cwd() + '/build/oracles/');
const { Tokenizer } = require('tokenizers');

const strings = JSON.parse(fs.readFileSync('test/data/nasty.json', 'utf8'));
const prose = `The quick brown fox jumps over the lazy dog and the other dogs of the town, which it's said they've
never seen. Don't you think that's what we'll do? I'm sure they're right: the answer isn't here or there.
In 1969 or 2024, at 12:30, 100 of 1,000 people read this. for (int i = 0; i < count; i++) return x->next;
def function(self, value): return self.value == value  # comment    with    spaces
Der schnelle braune Fuchs springt über den faulen Hund. Où est la bibliothèque? Das große Haus, die Straße.
Съешь же ещё этих мягких французских булок. 日本語のテキストと漢字。한국어 문장 업데이트. नमस्ते दुनिया. 👍👍🏽 👩‍👩‍👧
camelCase HTTPServer iPhone XMLHttpRequest under_score\n\n\n\t\ttabs   aaaaaaa -------- ========\n`;
const text = prose.repeat(2) + strings.filter(s => s.length < 60).join('\n');

// --- learning ---

const visible = b => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
const alphabet = [];
for (let b = 0, next = 256; b < 256; b++) alphabet.push(String.fromCharCode(visible(b) ? b : next++));
const asBytes = word => [...Buffer.from(word)].map(b => alphabet[b]);

function learn(words, symbolsOf, start, merges) {
    const vocab = new Map(start.map((token, id) => [token, id])), list = [];
    const counts = new Map();
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    let parts = [...counts].map(([word, count]) => ({ symbols: symbolsOf(word), count }));
    for (const part of parts)
        for (const symbol of part.symbols) if (!vocab.has(symbol)) vocab.set(symbol, vocab.size);
    while (list.length < merges) {
        const pairs = new Map();
        for (const { symbols, count } of parts)
            for (let i = 0; i + 1 < symbols.length; i++) {
                const key = symbols[i] + '\u0000' + symbols[i + 1];
                pairs.set(key, (pairs.get(key) ?? 0) + count);
            }
        const best = [...pairs].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
        if (!best || best[1] < 2) break;
        const [left, right] = best[0].split('\u0000');
        list.push([left, right]);
        if (!vocab.has(left + right)) vocab.set(left + right, vocab.size);
        for (const part of parts) {
            const out = [];
            for (let i = 0; i < part.symbols.length; i++)
                if (part.symbols[i] === left && part.symbols[i + 1] === right) { out.push(left + right); i++; }
                else out.push(part.symbols[i]);
            part.symbols = out;
        }
    }
    return { vocab: Object.fromEntries(vocab), merges: list };
}
const words = text.match(/ ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+/gu);
const byteLevel = merges => learn(words, asBytes, alphabet, merges);
const marked = text.replaceAll(' ', '▁').match(/▁*[^▁]+/gu);
const bytes = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
const characters = merges =>
    learn(marked.filter(word => /^[\x20-\x7eà-üа-я▁\n]+$/.test(word)), word => [...word],
        ['<unk>', '<s>', '</s>', ...bytes], merges);

// --- tokenizers ---

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const TAIL = '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const UPPER = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', LOWER = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]', LEAD = '[^\\r\\n\\p{L}\\p{N}]?';
const O200K_TAIL = '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const split = (Regex, behavior = 'Isolated', invert = false) => ({ type: 'Split', pattern: { Regex }, behavior, invert });
const bytesStep = (use_regex = false, add_prefix_space = false) =>
    ({ type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex });
const steps = (...pretokenizers) => ({ type: 'Sequence', pretokenizers });
const added = (id, content, flags = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false,
    normalized: false, special: true, ...flags });
const bpe = (learned, options = {}) => ({ type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null,
    end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false, ...options, ...learned });
const template = (before, after = []) => ({ type: 'TemplateProcessing',
    single: [...before.map(([id]) => ({ SpecialToken: { id, type_id: 0 } })), { Sequence: { id: 'A', type_id: 0 } },
        ...after.map(([id]) => ({ SpecialToken: { id, type_id: 0 } }))],
    pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
    special_tokens: Object.fromEntries([...before, ...after].map(([id, n]) => [id, { id, ids: [n], tokens: [id] }])) });
const prepend = { type: 'Prepend', prepend: '▁' };
const replace = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
const sequence = (...normalizers) => ({ type: 'Sequence', normalizers });

const KIMI_UPPER = UPPER.replace(']', '&&[^\\p{Han}]]'), KIMI_LOWER = LOWER.replace(']', '&&[^\\p{Han}]]');
const suffixed = (() => { // CLIP's: the last symbol of a word has a suffix
    const learned = learn(text.toLowerCase().match(/\p{L}+/gu),
        word => asBytes(word).map((c, i, all) => i + 1 < all.length ? c : c + '</w>'), [...alphabet, ...alphabet.map(c => c + '</w>')], 160);
    learned.vocab['<|endoftext|>'] = Object.keys(learned.vocab).length;
    return learned;
})();
const small = byteLevel(160), chars = characters(200);
const smallSize = Object.keys(small.vocab).length, charsSize = Object.keys(chars.vocab).length;
const wordPieces = (() => {
    const list = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
    const lower = text.toLowerCase().normalize('NFD').replace(/\p{Mn}/gu, '');
    for (const c of new Set(lower)) if (!/\s/.test(c)) list.push(c, '##' + c);
    for (const w of new Set(lower.match(/[a-z]+/g))) list.push(...(w.length > 3 ? [w.slice(0, 3), '##' + w.slice(3)] : [w]));
    return Object.fromEntries([...new Set(list)].map((token, id) => [token, id]));
})();
const unigram = (() => {
    const list = [['<unk>', 0], ['<s>', 0], ['</s>', 0], ['▁', -2.5]];
    const seen = new Set(list.map(([piece]) => piece));
    const offer = (piece, score) => { if (!seen.has(piece)) { seen.add(piece); list.push([piece, score]); } };
    for (const word of new Set(marked)) {
        const piece = word.replace(/\s/g, '');
        const letters = [...piece];
        if (letters.length > 1 && letters.length < 9) offer(piece, -3 - letters.length / 7);
        for (let n = 2; n < 4; n++) if (letters.length > n) offer(letters.slice(0, n).join(''), -6.5 + n / 11);
    }
    for (const c of new Set(prose)) if (!/\s/.test(c)) offer(c, -9.25 - (c.codePointAt(0) % 17) / 19);
    return list.slice(0, 500);
})();

const tokenizers = {
    gpt2: { pre_tokenizer: bytesStep(true), model: bpe(small), added_tokens: [added(smallSize, '<|endoftext|>')] },
    llama3: { pre_tokenizer: steps(split(CONTRACTIONS + `|${LEAD}\\p{L}+|\\p{N}{1,3}` + TAIL), bytesStep()),
        model: bpe({ ...small, merges: small.merges.filter(([a, b]) => a + b !== 'Ġthe') }, { ignore_merges: true }),
        added_tokens: [added(smallSize, '<s>'), added(smallSize + 1, '<|endoftext|>')],
        post_processor: { type: 'Sequence', processors: [
            { type: 'ByteLevel', add_prefix_space: true, trim_offsets: false, use_regex: true }, template([['<s>', smallSize]])] } },
    qwen: { normalizer: { type: 'NFC' }, pre_tokenizer: steps(split(CONTRACTIONS + `|${LEAD}\\p{L}+|\\p{N}` + TAIL), bytesStep()),
        model: bpe(small), added_tokens: [added(smallSize, '<|endoftext|>'), added(smallSize + 1, '<unk>', { special: false })] },
    o200k: { pre_tokenizer: steps(split(`${LEAD}${UPPER}*${LOWER}+${CONTRACTIONS}?|${LEAD}${UPPER}+${LOWER}*${CONTRACTIONS}?|` +
        '\\p{N}{1,3}' + O200K_TAIL, 'Removed', true), bytesStep()), model: bpe(small) },
    tekken: { pre_tokenizer: steps(split(`${LEAD}${UPPER}*${LOWER}+|${LEAD}${UPPER}+${LOWER}*|\\p{N}` + O200K_TAIL), bytesStep()),
        model: bpe(small), added_tokens: [added(smallSize, '<s>'), added(smallSize + 1, '</s>')],
        post_processor: template([['<s>', smallSize]], [['</s>', smallSize + 1]]) },
    deepseek: { pre_tokenizer: steps(split('\\p{N}{1,3}'), split('[一-龥぀-ゟ゠-ヿ]+'),
        split('[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+'),
        bytesStep()), model: bpe(small) },
    digits: { pre_tokenizer: steps({ type: 'Digits', individual_digits: true }, bytesStep(true)), model: bpe(small) },
    prefix: { pre_tokenizer: bytesStep(true, true), model: bpe(small),
        post_processor: { type: 'RobertaProcessing', sep: ['</s>', 1], cls: ['<s>', 0], trim_offsets: true, add_prefix_space: true } },
    llama2: { normalizer: sequence(prepend, replace), model: bpe(chars, { unk_token: '<unk>', fuse_unk: true, byte_fallback: true }),
        added_tokens: [added(0, '<unk>'), added(1, '<s>'), added(2, '</s>', { rstrip: true, special: false })],
        post_processor: template([['<s>', 1]]) },
    gemma: { normalizer: replace, pre_tokenizer: { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false },
        model: bpe(chars, { unk_token: '<unk>', fuse_unk: true, byte_fallback: true }),
        added_tokens: [added(0, '<unk>'), added(charsSize, '\n\n', { special: false }), added(charsSize + 1, '▁▁', { special: false })] },
    unknown: { normalizer: replace, model: bpe(chars, { unk_token: '<unk>', fuse_unk: true }) },
    unfused: { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true },
        model: bpe(chars, { unk_token: '<unk>' }), added_tokens: [added(1, '<s>')] },
    unigram: { normalizer: sequence({ type: 'Nmt' }, { type: 'NFKC' }, { type: 'Replace', pattern: { Regex: ' {2,}' }, content: ' ' }),
        pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
        model: { type: 'Unigram', unk_id: 0, vocab: unigram, byte_fallback: false }, added_tokens: [added(1, '<s>'), added(2, '</s>')],
        post_processor: template([], [['</s>', 2]]) },
    bert: { normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
        pre_tokenizer: { type: 'BertPreTokenizer' }, model: { type: 'WordPiece', unk_token: '[UNK]',
            continuing_subword_prefix: '##', max_input_chars_per_word: 20, vocab: wordPieces },
        added_tokens: ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'].map((token, id) => added(id, token, { lstrip: id === 4 })),
        post_processor: { type: 'BertProcessing', sep: ['[SEP]', 3], cls: ['[CLS]', 2] } },
    words: { normalizer: sequence({ type: 'NFD' }, { type: 'StripAccents' }, { type: 'Lowercase' }, { type: 'Strip', strip_left: true, strip_right: true }),
        pre_tokenizer: { type: 'Whitespace' }, model: { type: 'WordLevel', unk_token: '<unk>',
            vocab: Object.fromEntries(['<unk>', ...new Set(text.toLowerCase().match(/[a-z]+|[^\w\s]+/g))].map((w, i) => [w, i])) } },
    added: { normalizer: sequence({ type: 'NFC' }, { type: 'Lowercase' }), pre_tokenizer: bytesStep(true), model: bpe(small),
        added_tokens: [added(smallSize, '<strip>', { lstrip: true, rstrip: true }), added(smallSize + 1, '<left>', { lstrip: true }),
            added(smallSize + 2, '<right>', { rstrip: true }), added(smallSize + 3, 'tok', { single_word: true, special: false }),
            added(smallSize + 4, 'tok1', { normalized: true, special: false }), added(smallSize + 5, 'Ångström', { normalized: true, special: false }),
            added(smallSize + 6, 'x', { single_word: true, normalized: true, special: false })] },
    behaviors: { pre_tokenizer: steps(split('[,.;:!?]', 'MergedWithPrevious'), split('[<\\[]', 'MergedWithNext'),
        split('\\d', 'Contiguous'), { type: 'Punctuation', behavior: 'Contiguous' }, { type: 'CharDelimiterSplit', delimiter: '_' },
        { type: 'WhitespaceSplit' }, bytesStep()), model: bpe(small) },
    patterns: { pre_tokenizer: steps(split("(?<![\\p{L}])[a-z]{2,3}?(?=[a-z])|\\b\\w+\\b(?!')|(?>x+)y?|[^\\S\\n]++|(?:ab|a|-{3})*?b$|^\\s|\\x{1F44D}|[\\u4e00-\\u9fff[\\x61]]+"),
        bytesStep()), model: bpe(small) },
    falcon: { pre_tokenizer: steps({ type: 'Punctuation', behavior: 'Contiguous' }, bytesStep(true), { type: 'Digits', individual_digits: false },
        split('[0-9][0-9][0-9]')), model: bpe(small), added_tokens: [added(smallSize, '<|endoftext|>')] },
    clip: { normalizer: sequence({ type: 'NFC' }, { type: 'Replace', pattern: { Regex: '\\s+' }, content: ' ' }, { type: 'Lowercase' }),
        pre_tokenizer: steps(split("'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", 'Removed', true), bytesStep()),
        model: bpe(suffixed, { unk_token: '<|endoftext|>', end_of_word_suffix: '</w>', continuing_subword_prefix: '' }),
        added_tokens: [added(Object.keys(suffixed.vocab).length - 1, '<|endoftext|>')] },
    kimi: { pre_tokenizer: steps(split(`[\\p{Han}]+|${LEAD}${KIMI_UPPER}*${KIMI_LOWER}+${CONTRACTIONS}?|${LEAD}${KIMI_UPPER}+${KIMI_LOWER}*${CONTRACTIONS}?|` +
        '\\p{N}{1,3}' + TAIL), bytesStep()), model: bpe(small) },
    classes: { pre_tokenizer: steps(split('\\R|[[:^alpha:]&&[^[:space:]]]+', 'Isolated'), split('\\p{Latin}\\X', 'MergedWithPrevious'),
        split('\\X\\X', 'Isolated'), bytesStep()), model: bpe(small) },
    untyped: { normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
        pre_tokenizer: { type: 'BertPreTokenizer' },
        model: { unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 20, vocab: wordPieces } },
    first: { normalizer: prepend, pre_tokenizer: steps(split('_', 'Isolated'), { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true }),
        model: bpe(chars, { unk_token: '<unk>' }) },
    // Every piece is one unknown word: its place shows where the text is cut.
    scripts: { pre_tokenizer: { type: 'UnicodeScripts' }, model: { type: 'WordLevel', unk_token: '<unk>', vocab: { '<unk>': 0 } } },
    length: { pre_tokenizer: { type: 'FixedLength', length: 3 }, model: { type: 'WordLevel', unk_token: '<unk>', vocab: { '<unk>': 0 } } },
    // GPT-NeoX and Phi-2: added tokens of blanks, trimmed from places
    blanks: { normalizer: { type: 'NFC' }, pre_tokenizer: bytesStep(true), model: bpe(small), post_processor: bytesStep(true),
        added_tokens: ['    ', '  ', '\t\t'].map((blanks, i) => added(smallSize + i, blanks, { special: false, normalized: true })) },
    bloom: { pre_tokenizer: steps(split(' ?[^(\\s|[.,!?…。，、।۔،])]+'), bytesStep()), model: bpe(small) },
    qwen35: { normalizer: { type: 'NFC' }, pre_tokenizer: steps(split(`${CONTRACTIONS}|${LEAD}[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|` +
        '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'), bytesStep()), model: bpe(small) },
    deepseek_llm: { normalizer: sequence(), pre_tokenizer: steps(split('[\r\n]'), split('\\s?[A-Za-zµÀ-ÖØ-öø-ƺ]+'), split('\\s?[!-/:-~！-／：-～‘-‟　-。]+'),
        split('\\s+$'), split('[一-龥ࠀ-一가-퟿]+'), { type: 'Digits', individual_digits: true }, bytesStep()), model: bpe(small) },
    super: { pre_tokenizer: steps(split('\\p{N}+'), split('(?=(\\d{3})+(?!\\d))'), bytesStep()), model: bpe(small) },
    albert: { normalizer: sequence({ type: 'Replace', pattern: { String: '``' }, content: '"' }, { type: 'Replace', pattern: { String: "''" }, content: '"' },
        { type: 'NFKD' }, { type: 'StripAccents' }, { type: 'Lowercase' }),
        pre_tokenizer: steps({ type: 'WhitespaceSplit' }, { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }),
        model: { type: 'Unigram', unk_id: 0, vocab: unigram, byte_fallback: false } },
};

// --- what the library makes of them ---

for (const [name, parts] of Object.entries(tokenizers)) {
    const file = { version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: null,
        post_processor: null, decoder: null, ...parts };
    const json = JSON.stringify(file).replaceAll('\u007f', '\\u007f');
    const tokenizer = Tokenizer.fromString(json);
    fs.writeFileSync(`test/data/tokenizers/${name}.json`, json + '\n');
    const lines = [];
    for (const string of strings) {
        const encoding = await tokenizer.encode(string, null, { addSpecialTokens: false });
        const places = [0];
        for (const c of string) places.push(places.at(-1) + Buffer.byteLength(c));
        const offsets = encoding.getOffsets();
        lines.push(encoding.getIds().map((id, i) => `${id}:${places[offsets[i][0]]}-${places[offsets[i][1]]}`).join(' '));
    }
    const whole = await tokenizer.encode('the fox', null, { addSpecialTokens: true });
    lines.push(whole.getIds().join(' '));
    fs.writeFileSync(`test/data/tokenizers/${name}.ids`, lines.join('\n') + '\n');
}

// A SentencePiece model with user-defined symbols and pieces of equal score, for tokenize_reads_sentencepiece_models.sh.

const varint = n => n < 128 ? [n] : [n & 127 | 128, ...varint(n >>> 7)];
const field = (number, bytes) => [...varint(number << 3 | 2), ...varint(bytes.length), ...bytes];
const piece = ([text, score, type = 1]) =>
    field(1, [...field(1, [...Buffer.from(text)]), 2 << 3 | 5, ...Buffer.from(new Float32Array([score]).buffer), 3 << 3, type]);
const pieces = [['<unk>', 0, 2], ['<s>', 0, 3], ['(', 0, 4], ['<tool>', 0, 4], ['l', -4.1], ['ll', -4.7], ...unigram.slice(3).filter(([text]) => text !== '(' && text !== 'l')];
fs.writeFileSync('test/data/tokenizers/pieces_symbols.model', Buffer.from([...pieces.flatMap(piece), ...field(2, [3 << 3, 1])]));
