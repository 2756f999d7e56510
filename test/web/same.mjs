// same.mjs PROGRAM MODULE: runs requests through the module and through the program and fails where
// a number differs by more than 1e-9 of itself or a text differs at all.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const [program, path] = process.argv.slice(2);
const requests = [
    { model: "llama-3.1-8b", tokens: "21.4M", epochs: 3, gpu: "h100-sxm", gpus: 8, stack: "hf-peft" },
    { model: "llama-3.1-8b", tokens: 5e7, method: "qlora", gpu: "rtx-4090", packing: "on" },
    { model: "llama-3.1-70b", tokens: 1e8, method: "full", stack: "nemo", gpus: 64, gpu: "h100" },
    { model: "qwen2.5-7b", tokens: 1e7, context: 32768, deadline: "4h", retries: 2, seed: 7 },
    { model: "mixtral-8x7b", tokens: 3e7, method: "lora", rank: 64, batching: "max", budget: 500 },
    { model: "llama-3.1-70b", tokens: 1e8, method: "full", gpu: "t4", gpus: 1, search: "off" },
    { model: "no-such-model", tokens: 1 },
    { model: "llama-3.1-8b", tokens: -5 },
];

const module = await WebAssembly.compile(readFileSync(path));
// The core neither reads nor writes files: what it imports of WASI is never called.
const wasi = new Proxy({}, { get: () => () => 52 });
const imports = Object.fromEntries(WebAssembly.Module.imports(module).map((i) => [i.module, wasi]));
const { exports } = await WebAssembly.instantiate(module, imports);
exports._initialize?.();

function inModule(request) {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const at = exports.allocate(bytes.length);
    new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
    exports.input(at, bytes.length);
    const code = exports.run();
    const from = exports.result();
    const text = new TextDecoder().decode(
        new Uint8Array(exports.memory.buffer, from, exports.result_size()));
    return { code, document: JSON.parse(text) };
}

function inProgram(request) {
    const words = ["plan", "--json"];
    for (const [key, value] of Object.entries(request))
        words.push(`--${key.replaceAll("_", "-")}=${value}`);
    try {
        const text = execFileSync(program, words, { encoding: "utf8", stdio: "pipe" });
        return { code: 0, document: JSON.parse(text) };
    } catch (failure) {
        return { code: failure.status, document: failure.stdout ? JSON.parse(failure.stdout) : null };
    }
}

let numbers = 0, widest = 0, differences = 0;
function compare(a, b, where) {
    if (typeof a === "number" && typeof b === "number") {
        const off = a === b ? 0 : Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b));
        numbers++;
        widest = Math.max(widest, off);
        if (off <= 1e-9) return;
    } else if (a !== null && b !== null && typeof a === "object" && typeof b === "object") {
        const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
        for (const key of keys) compare(a[key], b[key], `${where}.${key}`);
        return;
    } else if (a === b) {
        return;
    }
    differences++;
    console.log(`${where}: ${a} in the module, ${b} in the program`);
}

for (const [i, request] of requests.entries()) {
    const page = inModule(request), program_ = inProgram(request);
    const wrongInput = page.document.kind === "error";
    // A wrong option is the command line's mistake (2), a wrong key the document's (3).
    if (wrongInput ? program_.document !== null || program_.code < 2 : page.code !== program_.code) {
        differences++;
        console.log(`request ${i}: exit ${page.code} in the module, ${program_.code} in the program`);
    }
    if (!wrongInput) compare(page.document, program_.document, `request ${i}`);
}
console.log(`${numbers} numbers, at most ${widest} apart`);
process.exit(differences ? 1 : 0);
