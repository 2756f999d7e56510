// SPDX-License-Identifier: Apache-2.0
// browser.mjs page PROGRAM, browser.mjs report PROGRAM REPORT: tests the page, and a report's what-if,
// in a headless Chromium: it loads from file: without console messages or requests, each control
// gives the numbers of the command it shows, the keyboard reaches everything, axe finds no serious
// fault, errors are shown at their field, and names from outside are shown as text.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { differences, makeRandom } from "./core.mjs";

const [mode, program, report] = process.argv.slice(2).map((word, i) => (i ? resolve(word) : word));
const address = resolve("build/gpuhours.html");
const require = createRequire(resolve("build/page/") + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

let held = 0, broken = 0;
function hold(claim, found = []) {
    const faults = found === true ? [] : found === false ? ["failed"] : found;
    held++;
    broken += faults.length > 0;
    for (const fault of faults.slice(0, 5)) console.log(`${claim}: ${fault}`);
}

// --- the page and its state ---------------------------------------------------

const complaints = [];
async function open(path, { width = 1280, scheme = "light", hash = "" } = {}) {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme });
    page.on("console", (message) => complaints.push(`console: ${message.text()}`));
    page.on("pageerror", (failure) => complaints.push(`error: ${failure}`));
    page.on("dialog", (dialog) => complaints.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
    page.on("request", (request) => /^(file|blob):/.test(request.url()) || complaints.push(`request: ${request.url()}`));
    await page.goto(`file://${path}${hash}`);
    await settled(page, 0);
    return page;
}
const updates = (page) => page.evaluate(() => Number(document.getElementById("live").dataset.updates ?? 0));
const settled = (page, before) =>
    page.waitForFunction((count) => Number(document.getElementById("live").dataset.updates ?? 0) > count, before, { timeout: 60000 });
async function change(page, act) {
    const before = await updates(page);
    await act();
    await settled(page, before);
}
const planOf = async (page) => JSON.parse(await page.evaluate(() => document.getElementById("result").dataset.plan));
const wordsOf = async (page) => JSON.parse(await page.evaluate(() => document.getElementById("command").dataset.words));

async function planOfCommand(page, cwd) {
    const words = await wordsOf(page);
    // A shell reads the copied text as those words.
    const copied = await page.textContent("#command");
    const echoed = execFileSync("sh", ["-c", `printf '%s\\n' ${copied}`], { encoding: "utf8" });
    hold(`the command ${copied}`, echoed === words.join("\n") + "\n");
    try {
        return JSON.parse(execFileSync(program, [...words.slice(1), "--json"], { encoding: "utf8", stdio: "pipe", cwd }));
    } catch (failure) {
        return failure.status === 1 ? JSON.parse(failure.stdout) : { problem: failure.stderr };
    }
}

// --- claims -------------------------------------------------------------------

const values = {
    model: "qwen2.5-7b", tokens: "50M", epochs: "3", context: "4096", method: "full", rank: "64", precision: "fp8",
    checkpointing: "full", batching: "packed", micro_batch: "2", global_batch: "512", gpu: "l40s", gpus: "4",
    stack: "unsloth", price: "1.5", retries: "2", deadline: "10 min", budget: "0.5",
};

async function eachControl(page, what, cwd) {
    const numbers = (plan) => JSON.stringify({ ...plan, request: null });
    const names = await page.$$eval("#form > fieldset [name]", (controls) => controls.map((control) => control.name));
    hold(`${what} has controls`, names.length >= 10);
    for (const name of names) {
        const before = await planOf(page);
        const control = page.locator(`#form [name=${name}]`);
        const select = await control.evaluate((node) => node.tagName === "SELECT");
        await change(page, () => (select ? control.selectOption(values[name]) : control.fill(values[name]).then(() => control.blur())));
        const after = await planOf(page);
        hold(`${what}: ${name} changes the numbers`, numbers(before) !== numbers(after));
        hold(`${what}: ${name} as the program`, differences(after, await planOfCommand(page, cwd)));
        await change(page, () => page.click("#reset"));
    }
}

async function reachedByKeys(page, what) {
    const wanted = await page.$$eval("a[href], button, input, select, summary, [tabindex='0']", (nodes) =>
        nodes.filter((node) => node.checkVisibility() && !node.disabled).length);
    const reached = await page.evaluate(() => (document.activeElement.blur(), 0));
    const seen = new Set([reached]);
    for (let i = 0; i < wanted + 60 && seen.size <= wanted; i++) {
        await page.keyboard.press("Tab");
        seen.add(await page.evaluate(() => {
            window.order ??= [];
            if (!window.order.includes(document.activeElement)) window.order.push(document.activeElement);
            return 1 + window.order.indexOf(document.activeElement);
        }));
    }
    const left = await page.$$eval("a[href], button, input, select, summary, [tabindex='0']", (nodes) =>
        nodes.filter((node) => node.checkVisibility() && !node.disabled && !window.order.includes(node)).map((node) => node.outerHTML.slice(0, 90)));
    hold(`${what}: keys reach every control`, left);
    await page.locator("#form [name=method]").focus();
    await change(page, () => page.keyboard.press("ArrowDown"));
    hold(`${what}: keys change a control`, (await planOf(page)).configuration.method !== "lora");
}

async function accessible(page, what) {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run());
    const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    hold(`${what}: no serious fault`, serious.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary}`));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    hold(`${what}: nothing stands out at the side`, wide <= 0 ? [] : [`${wide} pixels`]);
}

const row = (text) => JSON.stringify({ instruction: "say", output: text }) + "\n";
const drop = (page, name, text, times) =>
    page.evaluate(([name, text, times]) => {
        const files = new DataTransfer();
        files.items.add(new File(Array(times).fill(text), name));
        window.dispatchEvent(new DragEvent("drop", { dataTransfer: files, cancelable: true }));
    }, [name, text, times]);

async function showsTextAsText() {
    const page = await open(address, { hash: "#model=" + encodeURIComponent("<img src=x onerror=alert(1)>") });
    hold("a hostile address is refused", (await page.textContent("#problem")).includes("<img src=x"));
    await change(page, () => page.click("#reset"));
    const name = "<img src=x onerror=alert(1)>\u202Etxt.jsonl";
    await change(page, () => drop(page, name, row("<script>alert(2)</script>"), 20));
    hold("a hostile name is shown", (await page.textContent("#data-summary")).startsWith("<img src=x onerror=alert(1)>⟨202E⟩txt.jsonl: 20 examples"));
    hold("a hostile name is copied as one word", (await wordsOf(page)).includes(name));
    hold("a hostile name makes no element", (await page.$$("img, iframe, [onerror], main script")).length === 0);
    await page.close();
}

async function countsInTheBackground() {
    const page = await open(address);
    const random = makeRandom(3);
    const words = Array.from({ length: 300000 }, () => random.next().toString(36).slice(2)).join(" ");
    // Runs inside the page: the first progress changes the form, its answer cancels the counting.
    await page.evaluate(() => {
        const [live, bar, epochs] = ["live", "bar", "f-epochs"].map((id) => document.getElementById(id));
        const before = live.dataset.updates;
        window.watched = new Promise((resolve) => {
            const watch = new MutationObserver(() => {
                if (bar.value > 0 && !epochs.value) {
                    epochs.value = "2";
                    epochs.dispatchEvent(new Event("input", { bubbles: true }));
                } else if (epochs.value && live.dataset.updates !== before) {
                    watch.disconnect();
                    resolve(!document.getElementById("progress").hidden);
                    document.getElementById("cancel").click();
                }
            });
            watch.observe(live, { attributes: true, subtree: true });
        });
    });
    const before = await updates(page);
    await drop(page, "long.jsonl", row(words), 40); // a hundred MB
    hold("the form answers while data is counted", await page.evaluate(() => window.watched));
    await settled(page, before + 1);
    hold("and with the right numbers", (await planOf(page)).workload.epochs === 2);
    hold("cancelled data is forgotten", (await page.isHidden("#progress")) && !(await page.textContent("#data-summary")));
    await change(page, () => page.click("#example"));
    hold("the example is counted", (await page.textContent("#data-summary")).startsWith("The example data"));
    hold("the example as the program", differences(await planOf(page), await planOfCommand(page)));
    await change(page, () => page.locator("[name=model]").fill("qwen2.5-7b").then(() => page.locator("[name=model]").blur()));
    hold("another family is counted anew", differences(await planOf(page), await planOfCommand(page)));
    await change(page, () => page.click("#data-forget"));
    await page.close();
}

async function keepsItsState() {
    const page = await open(address, { hash: "#model=qwen2.5-7b&tokens=3M&gpus=2&gpu=l40s&method=qlora" });
    const { model, gpus, gpu, method } = (await planOf(page)).configuration;
    hold("the address is the state", [model, gpus, gpu, method].join() === "qwen2.5-7b,2,l40s,qlora");
    await page.close();
}

// The page shows a plan exactly as the program's report of the same command does.
async function showsTheReport() {
    const page = await open(address, { hash: "#model=qwen2.5-7b&tokens=3M&gpus=2&gpu=l40s" });
    const folder = mkdtempSync(join(tmpdir(), "gpuhours-"));
    writeFileSync(join(folder, "plan.json"), JSON.stringify(await planOfCommand(page)));
    const html = execFileSync(program, ["report", "plan.json", "--html", "-"], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 26 });
    rmSync(folder, { recursive: true });
    const [here, there] = await page.evaluate((text) => {
        const main = new DOMParser().parseFromString(text, "text/html").querySelector("main");
        main.querySelector("#what-if")?.remove();
        return [document.getElementById("result"), main].map((node) => node.innerHTML.replace(/\s+(?=<section)/g, "").trim());
    }, html);
    hold("the page shows what the report shows", here === there && here.length > 10000);
    await page.close();
}

// An unknown GPU: the message is in view and at its field, only that field is red, the answer is grey.
async function showsFaultsAtTheirField() {
    for (const width of [1280, 390]) {
        const page = await open(address, { width });
        const gpu = page.locator("[name=gpu]"), what = `an unknown GPU, ${width} wide`;
        await page.locator("[name=budget]").scrollIntoViewIfNeeded();
        await change(page, () => gpu.evaluate((node) => {
            node.value = "macbook";
            node.dispatchEvent(new Event("input", { bubbles: true }));
        }));
        const red = await page.$$eval("[aria-invalid=true]", (nodes) => nodes.map((node) => node.name));
        hold(`${what}: only its field is red`, red.join() === "gpu");
        hold(`${what}: the message is at its field`, (await page.textContent("#f-gpu-fault")).includes('"macbook"') && (await page.isVisible("#f-gpu-fault")));
        hold(`${what}: the message is in view`, await page.locator("#problem").evaluate((node) => {
            const { top, bottom } = node.getBoundingClientRect();
            return !node.hidden && top >= 0 && bottom <= innerHeight;
        }));
        hold(`${what}: the old answer is grey`, await page.locator("#result").evaluate((node) => Number(getComputedStyle(node).opacity) < 0.5));
        await change(page, () => gpu.fill("h100"));
        hold(`${what}: a known one is answered`, (await page.isHidden("#problem")) && (await page.isHidden("#f-gpu-fault")) &&
            (await page.locator("#result").evaluate((node) => getComputedStyle(node).opacity === "1")));
        await page.close();
    }
}

async function namesItsGpu() {
    const page = await open(address);
    const box = await page.locator("[name=gpu]").boundingBox();
    hold("the GPU can be entered without scrolling", box.y + box.height < 900);
    hold("the answer names its GPU", (await page.textContent(".answer .of")).includes((await planOf(page)).configuration.gpu));
    const clipped = await page.$eval("#assumptions .scroll", (node) => node.scrollWidth - node.clientWidth);
    hold("the assumptions' dates are not clipped", clipped <= 0 ? [] : [`${clipped} pixels`]);
    await page.close();
}

async function findsPlaces() {
    const phone = await open(address, { width: 390 });
    await phone.click("#hosts");
    await phone.waitForSelector("#result #offers", { timeout: 60000 });
    const ends = await phone.$$eval("#offers thead th", (cells) => cells.map((cell) => [cell.textContent, cell.getBoundingClientRect().right]));
    const needed = ends.filter(([name]) => /hours|cost/.test(name));
    hold("a phone shows hours and cost of offers", needed.length === 4 && needed.every(([, right]) => right <= 390));
    await phone.close();
    const page = await open(address);
    await page.click("#hosts");
    await page.waitForSelector("#result #offers", { timeout: 60000 });
    hold("places are shown", (await page.$$("#result #offers tr")).length > 5);
    await accessible(page, "places");
    await page.close();
}

async function holdPage(path, what, cwd) {
    for (const scheme of ["light", "dark"])
        for (const width of [1280, 390]) {
            const page = await open(path, { width, scheme });
            await accessible(page, `${what}, ${scheme}, ${width} wide`);
            if (scheme === "dark" && width === 1280) await reachedByKeys(page, what);
            if (scheme === "light" && width === 1280) await eachControl(page, what, cwd);
            hold(`${what} makes no element of a name`, (await page.$$("img, iframe, [onerror], #what-if script, main script")).length === 0);
            await page.close();
        }
}

if (mode === "report") {
    await holdPage(report, "the report", resolve(report, ".."));
    const page = await open(report);
    const top = await page.$eval("#what-if", (node) => node.getBoundingClientRect().top + scrollY);
    hold("the what-if is near the top", top < 1200 ? [] : [`${top} pixels down`]);
    await page.close();
} else {
    await holdPage(address, "the page");
    await showsTextAsText();
    await countsInTheBackground();
    await keepsItsState();
    await showsFaultsAtTheirField();
    await namesItsGpu();
    await findsPlaces();
    await showsTheReport();
}
await browser.close();
hold("no console message, no request", complaints);
console.log(`${held} claims, ${broken} failed`);
process.exit(broken ? 1 : 0);
