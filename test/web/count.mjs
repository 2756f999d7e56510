// SPDX-License-Identifier: Apache-2.0
// count.mjs PROGRAM FOLDER: files as dropped onto the page give the profile, and the plan, that the
// program makes of the same files in that folder.

import { execFileSync } from "node:child_process";
import { File } from "node:buffer";
import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { resolve } from "node:path";
import { differences, makeRandom, open, page } from "./core.mjs";

const [program, folder] = [resolve(process.argv[2]), process.argv[3]];
const core = await open();
const date = "2026-11-15";
const random = makeRandom(7);
const words = "the of training loss 你好 naïve \"quoted\" {brace} \\ back ☃ tokens, and\tmore;".split(" ");
const sentence = (most) => Array.from({ length: 1 + Math.floor(random.next() * most) }, () => random.pick(words)).join(" ");
const rows = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const chat = () => ({ messages: [{ role: "user", content: sentence(40) }, { role: "assistant", content: sentence(300) }] });
const alpaca = () => ({ instruction: sentence(20), input: random.next() < 0.5 ? "" : sentence(9), output: sentence(90) });
const quote = (cell) => '"' + cell.replaceAll('"', '""') + '"';
const lines = (list) => list.map((row) => JSON.stringify(row)).join("\n");

const files = {
    "chat.jsonl": lines(rows(3000, chat)) + "\n",
    "no end.jsonl": "\ufeff" + lines(rows(50, alpaca)),
    "list.json": JSON.stringify(rows(400, alpaca), null, 2),
    "table.csv": "question,answer\r\n" + rows(300, () => [quote(sentence(9)), quote(sentence(50) + "\nnext")].join(",")).join("\r\n"),
    "plain.txt": rows(500, () => sentence(30)).join("\n\n"),
    "long.jsonl": lines(rows(60, () => ({ text: sentence(3000) }))),
    "packed.jsonl.gz": gzipSync(lines(rows(900, chat))),
    "broken.jsonl": lines(rows(20, chat)) + '\n{"messages": 5}\n{"messa\n\n[]\n' + lines([chat(), chat()]),
    "-rm 'x' $(y).jsonl": lines(rows(9, alpaca)),
    "cut.json": JSON.stringify(rows(30, alpaca)).slice(0, -1),
};
const refused = { "nothing.jsonl": "", "all wrong.jsonl": "1\n2\n", "nul.bin": "\0\0\0\0" };
for (const [name, text] of Object.entries({ ...files, ...refused })) writeFileSync(`${folder}/${name}`, text);

const dropped = (name) => {
    const bytes = readFileSync(`${folder}/${name}`);
    return new File([bytes], name);
};
const run = (args) => execFileSync(program, args, { cwd: folder, encoding: "utf8", stdio: "pipe", maxBuffer: 1 << 28 });
let wrong = 0;
function hold(what, found) {
    wrong += found.length > 0;
    for (const line of found.slice(0, 5)) console.log(`${what}: ${line}`);
}

async function compare(names, model) {
    const sorted = page.sortFiles(names.map(dropped));
    const answer = await page.countFiles(core, { ...sorted, model, date }, () => {});
    if (answer.code) return hold(names, [answer.text]);
    const profile = JSON.parse(answer.text);
    const data = page.dataOptions(sorted, profile);
    const options = Object.entries({ ...data.options, model, date }).flatMap(([name, value]) => [`--${name}`, value]);
    const there = run(["profile", ...data.words, ...options, "--json"]).replaceAll('"./-rm', '"-rm');
    hold(names, differences(profile, JSON.parse(there)));
    for (const said of [{}, { context: "1024", batching: "packed", gpu: "a100", search: "off" }]) {
        const plan = core.call("plan", { model, ...said });
        const same = page.commandWords({ model, ...said }, data);
        hold(names, differences(JSON.parse(plan.text), JSON.parse(run([...same.slice(1), "--date", date, "--json"]))));
    }
}

for (const name of Object.keys(files)) await compare([name], "llama-3.1-8b");
await compare(["chat.jsonl", "list.json", "table.csv"], "qwen2.5-7b");
await compare(["long.jsonl"], "gpt2"); // rows longer than the positions of the model
// A profile of the same rows, which may be planned for a model with fewer positions.
for (const counted of ["gpt2", "llama-3.1-8b"]) {
    run(["profile", "long.jsonl", "--model", counted, "--out", "profile.json", "--quiet"]);
    core.call("data_profile", JSON.parse(readFileSync(`${folder}/profile.json`, "utf8")));
    const plan = core.call("plan", { model: "gpt2" });
    hold(`profile for ${counted}`, differences(JSON.parse(plan.text), JSON.parse(run(["plan", "--profile", "profile.json", "--model", "gpt2", "--json"]))));
}
for (const name of ["tokenizer.json", "tokenizer_config.json"]) copyFileSync(`test/data/tiny_model/${name}`, `${folder}/${name}`);
await compare(["list.json", "tokenizer.json", "tokenizer_config.json"], "llama-3.1-8b");
writeFileSync(`${folder}/own.jinja`, "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}");
await compare(["chat.jsonl", "tokenizer.json", "tokenizer_config.json", "own.jinja"], "llama-3.1-8b");
rmSync(`${folder}/tokenizer_config.json`);
await compare(["table.csv", "tokenizer.json"], "llama-3.1-8b");
// However the bytes are cut into chunks, the profile is the same.
async function compareCut(name) {
    const whole = dropped(name), bytes = new Uint8Array(await whole.arrayBuffer());
    const cut = { name, size: whole.size, slice: (...at) => whole.slice(...at), stream: () => new ReadableStream({
        start(out) {
            for (let at = 0, next; at < bytes.length; at = next) {
                next = at + 1 + Math.floor(random.next() * (at > 70000 && at < 80000 ? 40 : 9000));
                out.enqueue(bytes.slice(at, next));
            }
            out.close();
        },
    }) };
    const job = { model: "llama-3.1-8b", date };
    const there = (await page.countFiles(core, { ...job, files: [whole] }, () => {})).text;
    const here = (await page.countFiles(core, { ...job, files: [cut] }, () => {})).text;
    hold(`${name} in pieces`, here === there ? [] : differences(JSON.parse(here), JSON.parse(there)));
}
for (const name of ["chat.jsonl", "list.json", "table.csv", "plain.txt", "broken.jsonl"]) await compareCut(name);

for (const name of Object.keys(refused)) {
    const answer = await page.countFiles(core, { files: [dropped(name)], model: "llama-3.1-8b", date }, () => {});
    if (answer.code !== 3) hold(name, [`code ${answer.code}`]);
}
// Where it could run is asked of the plan's document, here as there.
core.call("data_forget");
writeFileSync(`${folder}/plan.json`, core.call("plan", { model: "qwen2.5-7b", tokens: "9M", epochs: "2" }).text);
const places = JSON.parse(run(["hosts", "--plan", "plan.json", "--today", date, "--json"]));
hold("hosts", differences(JSON.parse(core.call("hosts", { today: date }).text), places));
process.exit(wrong ? 1 : 0);
