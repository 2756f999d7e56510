// SPDX-License-Identifier: Apache-2.0
// peer_tokenizer.mjs [TEXT...]: Hugging Face's library, as npm has it, on the first 4 MB of the same kind of records as
// bench_tokenizer: MB/s of text, special tokens off, one thread.

process.env.RAYON_NUM_THREADS = '1';
import fs from 'node:fs';
import { createRequire } from 'node:module';
const require = createRequire(process.cwd() + '/build/oracles/');

let names = process.argv.slice(2), records = [];
if (!names.length) names = fs.readdirSync('/usr/share/common-licenses').map(name => '/usr/share/common-licenses/' + name);
for (const name of names) {
    if (!fs.statSync(name).isFile()) continue;
    for (const line of fs.readFileSync(name, 'utf8').split('\n')) if (line) records.push(line);
}
let bytes = 0;
records = records.filter(record => (bytes += Buffer.byteLength(record)) < 4e6);
bytes = records.reduce((sum, record) => sum + Buffer.byteLength(record), 0);
let library;
try { library = require('tokenizers'); } catch { console.log('npm tokenizers: not here'); process.exit(0); }
for (const model of ['llama3', 'gpt2', 'llama2']) {
    const file = `build/oracles/models/${model}/tokenizer.json`;
    if (!fs.existsSync(file)) continue;
    const tokenizer = library.Tokenizer.fromFile(file);
    let best = Infinity, tokens = 0;
    for (let run = 0; run < 2; run++) {
        const start = process.hrtime.bigint();
        tokens = 0;
        for (let i = 0; i < records.length; i += 256)
            for (const encoding of await tokenizer.encodeBatch(records.slice(i, i + 256), { addSpecialTokens: false }))
                tokens += encoding.getLength();
        best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e9);
    }
    console.log(`${model.padEnd(16)} npm tokenizers ${(bytes / 1e6).toFixed(1)} MB ${tokens} tokens  ${(bytes / 1e6 / best).toFixed(2)} MB/s`);
}
