// SPDX-License-Identifier: Apache-2.0
// same.mjs PROGRAM COUNT: sends random requests through the page's module and the command that the
// page would copy through the program, and fails where the documents differ.

import { execFile } from "node:child_process";
import { differences, makeRandom, open, page } from "./core.mjs";

const [program, count] = process.argv.slice(2);
const core = await open();
const form = JSON.parse(core.call("form").text);
const fields = form.groups.flatMap((group) => group.fields);
for (const field of fields) if (!/^[a-z]+$/.test(field.kind)) throw new Error(`${field.name} is of the kind "${field.kind}"`);
const random = makeRandom(20261115);

const spellings = {
    model: form.names.model, gpu: form.names.gpu, stack: form.names.stack,
    tokens: ["20M", "1e9", "350k", "21400000", "3.2B", "900"], examples: ["52k", "1000"],
    epochs: ["1", "3", "2.5", "0.1"], context: ["512", "2048", "8192", "32k", "131072", "100"],
    rank: ["8", "64", "256"], micro_batch: ["auto", "1", "2", "8", "64"], global_batch: ["8", "64", "512"],
    gpus: ["1", "2", "4", "8", "16", "64"], nodes: ["1", "2"], parallel: ["auto", "ddp", "fsdp", "zero2", "tp2"],
    targets: ["all-linear", "attention", "q,v"], packing: ["on", "off"], mean_length: ["180", "1500"],
    deadline: ["4h", "2 d", "30 min"], startup: ["90", "5 min"], compile: ["2 min"], save_interval: ["30 min"],
    storage: ["2 GB/s", "200 MB/s"], budget: ["50", "5000"], price: ["1.99", "0", "12"], retries: ["0", "1", "2.5"],
    pad_to_multiple_of: ["8", "64"], alpha: ["16"], failed_runs: ["0", "1"], runs: ["1", "20"], parallel_runs: ["1", "4"], evals_per_epoch: ["4"], evaluate_every: ["50", "0"], save_every: ["100", "0"], saves_per_epoch: ["4"], failures_per_gpu_hour: ["1e-4"],
    async_steps: ["0", "1", "4"], image_size: ["1024x768", "336x336"], image_max_pixels: ["589824"], images: ["1", "4"],
    generations: ["8"], response_length: ["200,600,2000", "600"], response_limit: ["4096", "300"], sampler_gpus: ["1", "4"], steps: ["100"], updates: ["1", "8"], rounds: ["1", "4"], seed: ["7", "123"],
};
const common = ["method", "rank", "context", "batching", "precision", "checkpointing", "gpu", "gpus", "stack", "epochs",
    "micro_batch", "global_batch", "price", "retries"];

function spell(field) {
    if (field.choices) return random.pick(field.choices);
    if (field.kind === "flag") return random.pick(["on", "off"]);
    if (field.kind === "share") return random.pick(["0", "5%", "0.3"]);
    if (!spellings[field.name]) throw new Error(`same.mjs has no spelling of ${field.name}`);
    return random.pick(spellings[field.name]);
}

function makeRequest(i) {
    const said = { model: random.pick(form.names.model), tokens: random.pick(spellings.tokens) };
    for (const field of fields) {
        if (field.name in said || field.name === "seed" || random.next() > (common.includes(field.name) ? 0.35 : 0.06)) continue;
        said[field.name] = spell(field);
    }
    if (said.packing) delete said.batching;
    if (said.dora === "on" || said.nondeterministic === "on") said.stack = "native"; // others refuse them
    if (i % 25 === 0) said[random.pick(["epochs", "tokens", "gpu", "model", "micro_batch"])] = random.pick(["-5", "nan", "x", "'; ls"]);
    return said;
}

function inProgram(said) {
    const words = page.commandWords(said, null).slice(1).concat("--json");
    return new Promise((resolve) => execFile(program, words, { encoding: "utf8", maxBuffer: 1 << 26 },
        (failure, text, problem) => resolve({ code: failure ? failure.code : 0, text, problem })));
}

const tally = { plans: 0, equal: 0, unfit: 0, refused: 0, wrong: 0 };
async function compare(said) {
    const here = core.call("plan", said);
    const there = await inProgram(said);
    const refused = here.code > 1 && there.code > 1;
    let found = [];
    if (refused) {
        // A wrong option is the command line's mistake (2), a wrong key the document's (3): where
        // the code is the same, the sentence is.
        const sentence = JSON.parse(here.text).text;
        if (here.code === there.code && !there.problem.includes(sentence)) found = [`${sentence}, ${there.problem}`];
    } else if (here.code !== there.code) {
        found = [`exit ${here.code}, ${there.code}: ${here.text.slice(0, 300)} ${there.problem}`];
    } else {
        found = here.text === there.text ? [] : differences(JSON.parse(here.text), JSON.parse(there.text));
    }
    tally.plans += !refused;
    tally.equal += !refused && here.text === there.text;
    tally.unfit += here.code === 1;
    tally.refused += refused;
    tally.wrong += found.length > 0;
    for (const line of found.slice(0, 5)) console.log(`${JSON.stringify(said)}\n    ${line}`);
}

const requests = Array.from({ length: Number(count) }, (_, i) => makeRequest(i + 1));
const lane = async () => {
    while (requests.length) await compare(requests.pop());
};
await Promise.all(Array.from({ length: 4 }, lane));
console.log(JSON.stringify(tally));
process.exit(tally.wrong || tally.plans < 0.3 * count ? 1 : 0);
