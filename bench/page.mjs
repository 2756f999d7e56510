// SPDX-License-Identifier: Apache-2.0
// page.mjs: the page's speed in a headless Chromium, from file:.
//
//     make check-page && node bench/page.mjs
//
// Prints the time of a what-if recomputation (from the changed control to the drawn answer, and in
// the core alone) and of the full search, against their bars, and MB/s of 50 MB of chat
// records dropped onto the page against the native program in the same run. The records are
// conversations put together from the sentences of data/example.jsonl, as bench_profile's are.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { makeRandom, open as openCore } from "../test/web/core.mjs";

const require = createRequire(resolve("build/page/") + "/");
const { chromium } = require("playwright-core");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const folder = mkdtempSync(join(tmpdir(), "gpuhours-"));
const show = (what, value, unit, note = "") => console.log(`${what.padEnd(50)} ${value.toFixed(1).padStart(7)} ${unit.padEnd(4)} ${note}`);
// The best of many is what the code takes, the median what neighbours on the machine make of it.
const best = (list) => Math.min(...list);
const showTimes = (what, list, bar) =>
    show(what, best(list), "ms", `median ${list.sort((a, b) => a - b)[list.length >> 1].toFixed(1)}${bar ? `, bar ${bar}` : ""}`);

function writeRecords(path, bytes) {
    const example = readFileSync("data/example.jsonl", "utf8").trim().split("\n").map((line) => JSON.parse(line));
    const said = (role) => example.flatMap((row) => row.messages.filter((message) => message.role === role).map(({ content }) => content));
    const asks = said("user"), answers = said("assistant"), random = makeRandom(50);
    const several = (list) => Array.from({ length: 1 + Math.floor(random.next() * 3) }, () => random.pick(list)).join(" ");
    const rows = [];
    for (let size = 0; size < bytes;) {
        const messages = [];
        for (let turns = 1 + Math.floor(random.next() * 4); turns; turns--)
            messages.push({ role: "user", content: several(asks) }, { role: "assistant", content: several(answers) });
        rows.push(JSON.stringify({ messages }) + "\n");
        size += Buffer.byteLength(rows.at(-1));
    }
    writeFileSync(path, rows.join(""));
    return rows.length;
}

async function times(page, search) {
    await page.goto(`file://${resolve("build/gpuhours.html")}#model=llama-3.1-8b&tokens=20M&gpu=h100-sxm&gpus=8&search=${search}`);
    await page.reload();
    const updates = () => page.evaluate(() => Number(document.getElementById("live").dataset.updates ?? 0));
    await page.waitForFunction(() => document.getElementById("live").dataset.updates > 0);
    const taken = [];
    for (let i = 0; i < 31; i++) {
        const before = await updates();
        await page.locator("[name=epochs]").fill(String(2 + i / 10));
        await page.waitForFunction((count) => Number(document.getElementById("live").dataset.updates) > count, before);
        taken.push(await page.evaluate(() => Number(document.getElementById("live").dataset.milliseconds)));
    }
    return taken.slice(1);
}

async function inCore(search) {
    const core = await openCore();
    const taken = [];
    for (let i = 0; i < 31; i++) {
        const started = performance.now();
        core.call("plan", { model: "llama-3.1-8b", tokens: "20M", gpu: "h100-sxm", gpus: "8", search, epochs: String(2 + i / 10) });
        taken.push(performance.now() - started);
    }
    return taken.slice(1);
}

function native(path, threads) {
    const taken = [];
    for (let i = 0; i < 3; i++) {
        const started = performance.now();
        execFileSync("build/gpuhours", ["profile", path, "--model", "llama-3.1-8b", "--tokenizer", "built-in", "--json", "--quiet", "--threads", threads], { maxBuffer: 1 << 28 });
        taken.push((performance.now() - started) / 1000);
    }
    return best(taken);
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage();
showTimes("what-if, one configuration, in the core", await inCore("off"));
showTimes("what-if, one configuration, control to picture", await times(page, "off"), 50);
showTimes("what-if with the full search, in the core", await inCore("on"));
showTimes("what-if with the full search, control to picture", await times(page, "on"), 1000);

const path = join(folder, "train.jsonl");
const count = writeRecords(path, 50e6);
const megabytes = readFileSync(path).length / 1e6;
const taken = [];
for (let i = 0; i < 3; i++) {
    await page.setInputFiles("#files", []);
    await page.evaluate(() => delete document.getElementById("live").dataset.seconds);
    await page.setInputFiles("#files", path);
    await page.waitForFunction(() => document.getElementById("live").dataset.seconds, null, { timeout: 300000 });
    taken.push(await page.evaluate(() => Number(document.getElementById("live").dataset.seconds)));
}
const here = JSON.parse(await page.evaluate(() => document.getElementById("live").dataset.profile));
await browser.close();
const inPage = megabytes / best(taken);
show(`${megabytes.toFixed(0)} MB, ${count} records dropped onto the page`, inPage, "MB/s", `${here.tokens} tokens`);
for (const [threads, what] of [["1", "one thread"], ["0", "all cores"]]) {
    const rate = megabytes / native(path, threads);
    show(`the same, gpuhours profile, ${what}`, rate, "MB/s", `the page has ${((100 * inPage) / rate).toFixed(0)} % of it`);
}
rmSync(folder, { recursive: true });
