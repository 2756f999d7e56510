// SPDX-License-Identifier: Apache-2.0
// live: the form, its requests to the core, and the display. All numbers, sentences and charts come
// from the core; nothing is computed here. Used twice: as the page, and as the what-if of a report,
// where <script id="report-plan"> contains the initial plan.
"use strict";

// --- the core, in a worker ----------------------------------------------------

// Wraps the module in functions that take and return text. Runs in the worker, and in node for tests.
async function openCore(bytes) {
    const module = await WebAssembly.compile(bytes);
    // The core neither reads nor writes files: its WASI imports are never called.
    const unused = new Proxy({}, { get: () => () => 52 });
    const imports = {};
    for (const wanted of WebAssembly.Module.imports(module)) imports[wanted.module] = unused;
    const { exports } = await WebAssembly.instantiate(module, imports);
    exports._initialize();
    const memory = (at, size) => new Uint8Array(exports.memory.buffer, at, size);

    function give(bytes) {
        const at = exports.allocate(bytes.length);
        memory(at, bytes.length).set(bytes);
        exports.input(at, bytes.length);
    }
    function answer(code) {
        const at = exports.result();
        return { code, text: new TextDecoder().decode(memory(at, exports.result_size())) };
    }
    function call(verb, input) {
        give(input instanceof Uint8Array ? input : new TextEncoder().encode(JSON.stringify(input ?? {})));
        return answer(exports[verb]() ?? 0);
    }
    function push(chunk, ended) {
        give(new Uint8Array());
        const at = exports.data_room(chunk.length);
        memory(at, chunk.length).set(chunk);
        return answer(exports.data_push(chunk.length, ended));
    }
    return { call, push };
}

// A file's bytes, decompressed if it is gzipped; onRead is called with the bytes read so far.
async function unpackedStream(file, onRead) {
    const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    const telling = new TransformStream({
        transform(chunk, out) {
            onRead(chunk.length);
            out.enqueue(chunk);
        },
    });
    const stream = file.stream().pipeThrough(telling);
    return head[0] === 0x1f && head[1] === 0x8b ? stream.pipeThrough(new DecompressionStream("gzip")) : stream;
}

async function countFile(core, file, onRead) {
    if (file === "example") return core.call("data_example");
    let answer = core.call("data_file", { name: file.name, bytes: file.size });
    const reader = (await unpackedStream(file, onRead)).getReader();
    let rested = performance.now();
    while (!answer.code) {
        if (performance.now() - rested > 40) { // let other requests through
            await new Promise((goOn) => setTimeout(goOn));
            rested = performance.now();
        }
        const { done, value } = await reader.read();
        answer = core.push(done ? new Uint8Array() : value, done);
        if (done) return answer;
    }
    await reader.cancel();
    return answer;
}

// Counts the tokens of dropped files: { files, tokenizer, config, template, model, date } → a
// profile. A file is a File, or the word "example".
async function countFiles(core, job, progress) {
    const names = {};
    for (const [key, verb] of [["tokenizer", "tokenizer"], ["config", "config"], ["template", "chat_template"]])
        if (job[key]) {
            core.call(verb, new Uint8Array(await job[key].arrayBuffer()));
            names[key] = job[key].name;
        }
    let done = 0;
    let answer = core.call("data_begin", { ...names, model: job.model, date: job.date });
    for (const file of job.files) {
        if (answer.code) return answer;
        answer = await countFile(core, file, (bytes) => progress((done += bytes)));
    }
    return answer.code ? answer : core.call("data_end");
}

function workerMain() {
    let core;
    onmessage = async ({ data: { id, verb, input } }) => {
        const reply = (answer) => postMessage({ id, ...answer });
        try {
            if (verb === "open") {
                core = openCore(input);
                reply({ code: 0, text: (await core).call("form").text });
            } else if (verb === "count") {
                reply(await countFiles(await core, input, (done) => postMessage({ id, done })));
            } else {
                reply((await core).call(verb, input));
            }
        } catch (failure) {
            reply({ code: 70, text: JSON.stringify({ kind: "error", text: String(failure) }) });
        }
    };
}

const stopped = -1; // the code of requests to a worker that was terminated

// Sends requests to a worker; stop() terminates it and starts another.
function makeAsker(bytes) {
    let worker, waiting, last = 0;
    function start() {
        const source = [openCore, unpackedStream, countFile, countFiles, workerMain].join("\n") + "\nworkerMain();";
        const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
        worker = new Worker(address);
        URL.revokeObjectURL(address);
        waiting = new Map();
        worker.onmessage = ({ data }) => {
            const wait = waiting.get(data.id);
            if ("done" in data) return wait.progress?.(data.done);
            waiting.delete(data.id);
            wait.resolve(data);
        };
        return ask("open", bytes);
    }
    function ask(verb, input, progress) {
        return new Promise((resolve) => {
            waiting.set(++last, { resolve, progress });
            worker.postMessage({ id: last, verb, input });
        });
    }
    function stop() {
        worker.terminate();
        for (const wait of waiting.values()) wait.resolve({ code: stopped, text: "" });
        return start();
    }
    return { start, ask, stop };
}

async function unpackModule(base64) {
    const packed = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// --- the command line ---------------------------------------------------------

// A word as a shell reads it back.
function shellWord(word) {
    return /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

// The inputs as command-line words that give the same numbers in a terminal.
function commandWords(inputs, data) {
    const words = ["gpuhours", "plan"];
    for (const name of data?.words ?? []) words.push(name);
    for (const [name, value] of Object.entries(inputs)) {
        words.push(`--${name.replaceAll("_", "-")}`, value);
    }
    for (const [name, value] of Object.entries(data?.options ?? {})) words.push(`--${name}`, value);
    return words;
}

// A file name as an argument that is not mistaken for an option.
const fileWord = (name) => (name.startsWith("-") || name === "example" ? "./" + name : name);

// --- dropped files ------------------------------------------------------------

// Sorts files into tokenizer, its configuration, template and data.
function sortFiles(files) {
    const sorted = { files: [], tokenizer: null, config: null, template: null };
    for (const file of files) {
        const name = file === "example" ? "" : file.name;
        if (/tokenizer_config\.json$/.test(name)) sorted.config = file;
        else if (/(tokenizer\.json|\.model|\.tiktoken)$/.test(name)) sorted.tokenizer = file;
        else if (/\.jinja2?$/.test(name)) sorted.template = file;
        else sorted.files.push(file);
    }
    return sorted;
}

// The command-line options for these files, once they are counted.
function dataOptions(sorted, profile) {
    const options = { tokenizer: sorted.tokenizer ? fileWord(sorted.tokenizer.name) : "built-in" };
    if (sorted.template) options.template = fileWord(sorted.template.name);
    else if (sorted.tokenizer && !sorted.config) options.template = profile.template?.split(" ")[0] ?? "none"; // the family's
    if (profile.bad_rows) options["bad-rows"] = "skip";
    return { words: sorted.files.map((file) => (file === "example" ? "example" : fileWord(file.name))), options };
}

// The profile in the file, or null.
async function readProfile(file) {
    if (file === "example" || !file.name.endsWith(".json") || file.size > 1 << 26) return null;
    try {
        const profile = JSON.parse(await file.text());
        return profile.kind === "profile" ? profile : null;
    } catch {
        return null;
    }
}

// --- the form -----------------------------------------------------------------

const pageLayout = [
    ["The run", ["model", "tokens", "gpu", "gpus", "epochs", "context"]],
    ["Recipe", ["method", "rank", "precision", "checkpointing", "batching", "micro_batch", "global_batch"]],
    ["Trainer, price and limits", ["stack", "price", "retries", "deadline", "budget"]],
];
const reportLayout = [
    ["Recipe", ["method", "rank", "context", "batching", "precision", "checkpointing"]],
    ["Hardware and plan", ["gpu", "gpus", "epochs", "retries", "price"]],
];
const unshown = ["packing"]; // the same as batching

const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
        if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    made.append(...children);
    return made;
};

const title = (name) => name.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase()).replace(/gpu/i, "GPU");

function makeControl(field, names) {
    const id = "f-" + field.name;
    const choices = field.kind === "flag" ? ["on", "off"] : field.choices;
    const usual = field.kind === "flag" ? (/^(1|true|yes|on)$/.test(field.usual ?? "") ? "on" : "off") : field.usual;
    let control;
    if (choices) {
        control = element("select", { id, name: field.name });
        for (const choice of choices)
            control.append(element("option", { value: choice === usual ? "" : choice, "data-name": choice }, choice));
        control.value = "";
    } else {
        const numeric = ["count", "number", "share", "usd", "price"].includes(field.kind);
        control = element("input", {
            id, name: field.name, type: "text", autocomplete: "off", spellcheck: "false", placeholder: usual ?? "",
            inputmode: numeric ? "decimal" : undefined, list: names ? "names-" + field.name : undefined,
        });
    }
    control.setAttribute("aria-describedby", id + "-help");
    const box = element("div", { class: "field" }, element("label", { for: id }, title(field.name)), control,
        element("p", { class: "help", id: id + "-help" }, field.help), element("p", { class: "fault", id: id + "-fault", hidden: true }));
    if (names) box.append(element("datalist", { id: "names-" + field.name }, ...names.map((value) => element("option", { value }))));
    return box;
}

function makeForm(place, form, layout, withRest) {
    const fields = new Map(form.groups.flatMap((group) => group.fields.map((field) => [field.name, field])));
    const control = (name) => makeControl(fields.get(name), form.names[name]);
    const shown = new Set(layout.flatMap(([, names]) => names).concat(unshown));
    const set = (legend, names) => element("fieldset", {}, element("legend", {}, legend),
        element("div", { class: "fields" }, ...names.map(control)));
    place.append(...layout.map(([legend, names]) => set(legend, names)));
    if (!withRest) return;
    const rest = form.groups.map((group) =>
        set(group.title, group.fields.map((field) => field.name).filter((name) => !shown.has(name))));
    place.append(element("details", {}, element("summary", {}, "All other options"), ...rest));
}

// The typed values of all fields that are not empty.
function readForm(place) {
    const inputs = {};
    for (const control of place.querySelectorAll("[name]"))
        if (control.value.trim() && !control.disabled) inputs[control.name] = control.value.trim();
    return inputs;
}

function fillForm(place, inputs) {
    for (const control of place.querySelectorAll("[name]")) {
        const value = String(inputs[control.name] ?? "");
        control.value = value;
        if (control.value !== value) control.value = ""; // the default choice, or not a choice
    }
}

// --- display ------------------------------------------------------------------

const byId = (id) => document.getElementById(id);

function show(text, isError) {
    byId("status").textContent = isError ? "" : text;
    byId("problem").textContent = isError ? text : "";
    byId("problem").hidden = !isError;
}

// The core's own HTML, in which everything from outside is escaped. Inside a report the ids get a
// prefix, since the report already has them.
function showSections(html, prefix) {
    const made = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("main");
    if (prefix)
        for (const node of made.querySelectorAll("*"))
            for (const name of ["id", "for", "aria-labelledby", "aria-describedby"])
                if (node.hasAttribute(name)) node.setAttribute(name, node.getAttribute(name).replace(/\S+/g, (id) => prefix + id));
    byId("result").replaceChildren(...made.childNodes);
}

// "0.65 GPU hours on 1 × gh200-96gb, 80 % range 0.50 – 0.89"
function shortAnswer(sections) {
    const answer = new DOMParser().parseFromString(sections, "text/html").querySelector(".answer");
    const range = answer?.querySelector(".of span");
    range?.prepend(", ");
    return answer ? `${answer.querySelector(".big").textContent} ${answer.querySelector(".of").textContent}` : "";
}

// The control that a message is about: the option it begins with, else the one whose value it
// quotes, else the one changed last.
function faultyControl(controls, text, last) {
    const option = /^(?:--)?([a-z][a-z_-]*)/.exec(text)?.[1].replaceAll("-", "_");
    return controls.find((control) => control.name === option) ??
        controls.find((control) => control.value.trim() && text.includes(`"${control.value.trim()}"`)) ??
        controls.find((control) => control.name === last);
}

// Shows a message (null: none) at its field and at the top, and greys out the answer it leaves old.
function showFault(live, text) {
    const controls = [...live.place.querySelectorAll("[name]")];
    const faulty = text && faultyControl(controls, text, live.changed);
    for (const control of controls) {
        const message = byId(control.id + "-fault");
        control.setAttribute("aria-invalid", control === faulty);
        message.hidden = control !== faulty;
        message.textContent = control === faulty ? text : "";
        control.setAttribute("aria-describedby", `${control.id}-help` + (control === faulty ? ` ${message.id}` : ""));
    }
    byId("result").classList.toggle("stale", Boolean(text));
    const old = byId("result").childElementCount ? ". The answer shown is for the previous inputs." : "";
    if (text) show(text + old, true);
}

// Shows the core's choices in the fields that are empty.
function showChosen(place, plan) {
    const chosen = { epochs: plan.workload.epochs, tokens: plan.workload.tokens, ...plan.configuration };
    for (const control of place.querySelectorAll("[name]")) {
        const value = String(chosen[control.name] ?? "");
        const usual = control.querySelector?.("option[value='']");
        if (usual?.dataset.name === "auto") usual.textContent = value && value !== "auto" ? `auto: ${value}` : "auto";
        else if (!usual && value) control.placeholder = value;
    }
}

// A name from outside, with control and direction characters made visible, as base/markup does.
const harmless = (name) =>
    [...name.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\u2028\u2029]/gu, (c) => `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)]
        .slice(0, 80).join("");

const today = () => new Date().toISOString().slice(0, 10);
const spell = (number) => number.toLocaleString("en", { maximumFractionDigits: 1 });

// --- plans --------------------------------------------------------------------

// The state of the page: the form, the worker, the report's plan (with options that the form does
// not show), the data, and the control that was changed last.
function makeLive(asker, reported) {
    return { place: byId("form"), asker, reported, data: null, files: [], model: "", busy: false, again: false, changed: "" };
}

function requestOf(live) {
    const inputs = { ...live.reported?.request };
    for (const control of live.place.querySelectorAll("[name]")) delete inputs[control.name];
    Object.assign(inputs, readForm(live.place));
    if (live.data) for (const name of ["tokens", "examples", "mean_length"]) delete inputs[name];
    return inputs;
}

// The what-if shows nothing until something differs from the report's plan.
function whatIfSections(live) {
    const same = JSON.stringify(readForm(live.place)) === live.first;
    return same ? [] : ["answer", "compare", "memory", "mistakes"];
}

async function showPlan(live, inputs) {
    const started = performance.now();
    const answer = await live.asker.ask("plan", inputs);
    if (answer.code === stopped) return;
    const plan = JSON.parse(answer.text);
    const refused = plan.kind === "error";
    showFault(live, refused ? plan.text.replace(/^request: /, "") : null);
    if (!refused) {
        const sections = await live.asker.ask("sections", live.reported ? { only: whatIfSections(live) } : {});
        if (sections.code === stopped) return;
        showSections(sections.text, live.reported ? "what-if-" : "");
        showChosen(live.place, plan);
        show(shortAnswer(sections.text));
        byId("result").dataset.plan = answer.text;
    }
    const words = commandWords(inputs, live.data);
    byId("command").replaceChildren(...words.flatMap((word) => [element("span", {}, shellWord(word)), " "]).slice(0, -1));
    byId("command").dataset.words = JSON.stringify(words);
    byId("copied").textContent = "";
    byId("live").dataset.milliseconds = performance.now() - started;
}

// Shows the offers for the current plan, until the next change.
async function showHosts(live) {
    byId("hosts").disabled = true;
    const answer = await live.asker.ask("hosts", { today: today() });
    const sections = answer.code > 1 ? answer : await live.asker.ask("sections", {});
    byId("hosts").disabled = false;
    if (sections.code === stopped) return;
    if (sections.code > 1) return show(JSON.parse(sections.text).text, true);
    showSections(sections.text, "");
    byId("result").querySelector("#offers")?.scrollIntoView();
}

// Makes one plan at a time; changes in the meantime are used by the next.
async function update(live) {
    live.again = true;
    if (live.busy) return;
    live.busy = true;
    while (live.again) {
        live.again = false;
        await showPlan(live, requestOf(live));
    }
    live.busy = false;
    if (!live.reported) location.replace("#" + new URLSearchParams(readForm(live.place)));
    byId("live").dataset.updates = Number(byId("live").dataset.updates ?? 0) + 1;
}

// An estimate of tokens depends on the model's family: another model counts the data again.
function changed(live) {
    const recount = live.data?.options.tokenizer === "built-in" && readForm(live.place).model !== live.model;
    return recount ? takeFiles(live, live.files) : update(live);
}

// --- data ---------------------------------------------------------------------

function showData(live, profile, what) {
    const tokens = live.place.querySelector("[name=tokens]");
    if (Boolean(profile) !== tokens.disabled) {
        const shown = tokens.value;
        tokens.disabled = Boolean(profile);
        tokens.value = profile ? "" : tokens.dataset.typed;
        tokens.dataset.typed = shown;
    }
    byId("data-forget").hidden = !profile;
    byId("data-summary").textContent = profile
        ? `${what}: ${spell(profile.examples)} examples, ${spell(profile.tokens)} tokens, ` +
          (profile.tokenizer.exact ? "counted exactly" : `estimated (${profile.tokenizer.name})`) +
          (profile.bad_rows ? `; ${spell(profile.bad_rows)} bad rows skipped` : "")
        : "";
}

function showProgress(total) {
    const started = performance.now();
    byId("progress").hidden = false;
    byId("bar").max = total || 1;
    byId("bar").value = 0;
    return (done) => {
        const seconds = (performance.now() - started) / 1000;
        byId("bar").value = done;
        byId("rate").textContent = `${spell(done / 1e6)} of ${spell(total / 1e6)} MB, ${spell(done / 1e6 / seconds)} MB/s`;
    };
}

async function count(live, sorted) {
    const model = readForm(live.place).model ?? "";
    const total = sorted.files.reduce((sum, file) => sum + (file.size ?? 0), 0);
    const job = { ...sorted, model, date: today() };
    const started = performance.now();
    const answer = await live.asker.ask("count", job, showProgress(total));
    if (answer.code === stopped) return null;
    byId("progress").hidden = true;
    if (answer.code) throw new Error(JSON.parse(answer.text).text);
    live.model = model;
    live.data = dataOptions(sorted, JSON.parse(answer.text));
    byId("live").dataset.profile = answer.text;
    byId("live").dataset.seconds = (performance.now() - started) / 1000;
    return JSON.parse(answer.text);
}

async function takeProfile(live, profile, name) {
    const answer = await live.asker.ask("data_profile", profile);
    if (answer.code) throw new Error(JSON.parse(answer.text).text);
    live.data = { words: [], options: { profile: fileWord(name) } };
    return profile;
}

async function takeFiles(live, files) {
    const sorted = sortFiles(files);
    if (!byId("progress").hidden) await live.asker.stop(); // counting other files
    live.files = files;
    live.data = null;
    try {
        if (!sorted.files.length) throw new Error("a tokenizer alone has no examples: drop the data with it");
        const made = sorted.files.length === 1 && (await readProfile(sorted.files[0]));
        const profile = made ? await takeProfile(live, made, sorted.files[0].name) : await count(live, sorted);
        if (!profile) return;
        showData(live, profile, sorted.files.map((file) => (file === "example" ? "The example data" : harmless(file.name))).join(", "));
        await update(live);
    } catch (failure) {
        showData(live, null);
        show(failure.message, true);
    }
}

async function forgetData(live) {
    byId("progress").hidden = true;
    live.data = null;
    live.files = [];
    showData(live, null);
    await live.asker.ask("data_forget", {});
    await update(live);
}

// --- events -------------------------------------------------------------------

function copyCommand() {
    const report = (text) => (byId("copied").textContent = text);
    const select = () => {
        getSelection().selectAllChildren(byId("command"));
        report("Selected: press Ctrl+C to copy");
    };
    if (!navigator.clipboard) return select();
    return navigator.clipboard.writeText(byId("command").textContent).then(() => report("Copied"), select);
}

function listenToForm(live, first) {
    const take = (name) => {
        live.changed = name;
        changed(live);
    };
    live.place.addEventListener("input", ({ target }) => target.name !== "model" && take(target.name));
    live.place.addEventListener("change", ({ target }) => target.name === "model" && take(target.name));
    live.place.addEventListener("submit", (event) => event.preventDefault());
    byId("copy").addEventListener("click", copyCommand);
    byId("reset").addEventListener("click", () => {
        fillForm(live.place, first);
        changed(live);
    });
}

function listenToFiles(live) {
    const dropping = (is) => document.body.classList.toggle("dropping", is);
    byId("files").addEventListener("change", ({ target }) => target.files.length && takeFiles(live, [...target.files]));
    byId("example").addEventListener("click", () => takeFiles(live, ["example"]));
    byId("data-forget").addEventListener("click", () => forgetData(live));
    byId("hosts").addEventListener("click", () => showHosts(live));
    byId("cancel").addEventListener("click", () => live.asker.stop().then(() => forgetData(live)));
    addEventListener("dragover", (event) => {
        event.preventDefault();
        dropping(true);
    });
    addEventListener("dragleave", (event) => event.relatedTarget || dropping(false));
    addEventListener("drop", (event) => {
        event.preventDefault();
        dropping(false);
        if (event.dataTransfer.files.length) takeFiles(live, [...event.dataTransfer.files]);
    });
}

const inputsOfAddress = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

function listenToAddress(live) {
    addEventListener("hashchange", () => {
        if (new URLSearchParams(readForm(live.place)).toString() === location.hash.slice(1)) return;
        fillForm(live.place, inputsOfAddress());
        changed(live);
    });
}

async function startPage(live) {
    const first = { model: "llama-3.1-8b", tokens: "20M" };
    fillForm(live.place, location.hash.length > 1 ? inputsOfAddress() : first);
    listenToForm(live, first);
    listenToFiles(live);
    listenToAddress(live);
}

async function startWhatIf(live, profile) {
    const first = live.reported.request ?? {};
    fillForm(live.place, first);
    listenToForm(live, first);
    live.first = JSON.stringify(readForm(live.place));
    await live.asker.ask("compare_with", live.reported);
    if (profile) await takeProfile(live, profile, "profile.json");
    else byId("assumed").hidden = !live.reported.workload.measured;
}

async function start() {
    const written = (id) => JSON.parse(byId(id)?.textContent || "null");
    if (byId("report-plan") && !written("report-plan")) {
        byId("what-if").hidden = true; // a report without a plan
        return;
    }
    const asker = makeAsker(await unpackModule(byId("core-module").textContent));
    const live = makeLive(asker, written("report-plan"));
    const form = JSON.parse((await asker.start()).text);
    makeForm(live.place, form, live.reported ? reportLayout : pageLayout, !live.reported);
    byId("live").hidden = false;
    await (live.reported ? startWhatIf(live, written("report-profile")) : startPage(live));
    return update(live);
}

if (typeof document !== "undefined")
    start().catch((failure) => show(`This browser cannot run the forecast: ${failure.message}`, true));
