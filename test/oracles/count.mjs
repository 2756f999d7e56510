// SPDX-License-Identifier: Apache-2.0
// count.mjs TOKENIZER: reads texts from standard input, a JSON string on each line, and prints the number of tokens that
// Hugging Face's library finds in each, without the tokens that its post-processor adds. For conversations.py.

import fs from 'node:fs';
import { createRequire } from 'node:module';
const { Tokenizer } = createRequire(process.cwd() + '/build/oracles/')('tokenizers');

const tokenizer = Tokenizer.fromFile(process.argv[2]);
for (const line of fs.readFileSync(0, 'utf8').split('\n').filter(line => line)) {
    const encoding = await tokenizer.encode(JSON.parse(line), null, { addSpecialTokens: false });
    console.log(encoding.getLength());
}
