// SPDX-License-Identifier: Apache-2.0
// peer_tokenizer.mjs [TEXT...]: Hugging Face's library, as npm has it, on 2 MB of records from all over each text of
// bench_tokenizer: MB of text for each second of CPU time, special tokens off, one thread. MODELS=a,b picks models.

process.env.RAYON_NUM_THREADS = '1';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
const require = createRequire(process.cwd() + '/build/oracles/');

let library;
try { library = require('tokenizers'); } catch { console.log('npm tokenizers: not here'); process.exit(0); }
let names = process.argv.slice(2);
if (!names.length) names = fs.readdirSync('/usr/share/common-licenses').map(name => '/usr/share/common-licenses/' + name);
const models = (process.env.MODELS ?? 'llama3,qwen3,gpt2,gpt4o,gptoss,llama2,gemma3,deepseek_v3').split(',');

function records(name) {
    const text = fs.readFileSync(name, 'utf8'), lines = text.split(text.includes('\x1e') ? '\x1e' : '\n').filter(line => line);
    const every = Math.max(1, Math.floor(Buffer.byteLength(text) / 2e6));
    return lines.filter((_, i) => i % every === 0);
}

for (const model of models) {
    const file = `build/oracles/models/${model}/tokenizer.json`;
    if (!fs.existsSync(file)) continue;
    const tokenizer = library.Tokenizer.fromFile(file);
    for (const name of names) {
        if (!fs.statSync(name).isFile()) continue;
        const lines = records(name), mb = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0) / 1e6;
        const start = process.cpuUsage();
        let tokens = 0;
        for (let i = 0; i < lines.length; i += 256)
            for (const encoding of await tokenizer.encodeBatch(lines.slice(i, i + 256), { addSpecialTokens: false }))
                tokens += encoding.getLength();
        const { user, system } = process.cpuUsage(start);
        console.log(`${model.padEnd(12)} ${path.basename(name).padEnd(8)} npm tokenizers ${mb.toFixed(1)} MB ${tokens} tokens  ` +
            `${(mb * 1e6 / (user + system)).toFixed(2)} MB/s`);
    }
}
