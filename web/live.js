// live: the form, what it asks of the core, and what is shown. The numbers, the sentences and the
// charts are the core's; nothing here computes any. Used twice: as the page, and as the what-if of
// a report, where <script id="report-plan"> holds the plan to begin with.
"use strict";

// --- the core, in a worker ----------------------------------------------------

// The module behind functions that take and give text. Runs in the worker, and in node for tests.
async function openCore(bytes) {
    const module = await WebAssembly.compile(bytes);
    // The core neither reads nor writes files: what it imports of WASI is never called.
    const none = new Proxy({}, { get: () => () => 52 });
    const imports = {};
    for (const wanted of WebAssembly.Module.imports(module)) imports[wanted.module] = none;
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

// A file's bytes, unpacked where it is gzipped; what was read of it is told as it goes.
async function unpackedStream(file, tell) {
    const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    const telling = new TransformStream({
        transform(chunk, out) {
            tell(chunk.length);
            out.enqueue(chunk);
        },
    });
    const stream = file.stream().pipeThrough(telling);
    return head[0] === 0x1f && head[1] === 0x8b ? stream.pipeThrough(new DecompressionStream("gzip")) : stream;
}

async function countFile(core, file, tell) {
    if (file === "example") return core.call("data_example");
    let answer = core.call("data_file", { name: file.name, bytes: file.size });
    const reader = (await unpackedStream(file, tell)).getReader();
    let rested = performance.now();
    while (!answer.code) {
        if (performance.now() - rested > 40) { // so that other questions are heard
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

// Counts dropped files: { files, tokenizer, config, template, model, date } → a profile. A file is
// a File, or the word "example".
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

const stopped = -1; // the code of what was asked of a worker that ended

// Asks a worker of its own; stop() ends whatever it does, and the next question starts another.
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

// What was said, as words that give the same numbers in the terminal.
function commandWords(said, data) {
    const words = ["gpuhours", "plan"];
    for (const name of data?.words ?? []) words.push(name);
    for (const [name, value] of Object.entries(said)) {
        words.push(`--${name.replaceAll("_", "-")}`, value);
    }
    for (const [name, value] of Object.entries(data?.options ?? {})) words.push(`--${name}`, value);
    return words;
}

// A file's name as an argument that cannot be taken for an option.
const fileWord = (name) => (name.startsWith("-") || name === "example" ? "./" + name : name);

// --- dropped files ------------------------------------------------------------

// Which of them is what; the rest is data.
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

// What the command line says of them, once they are counted.
function dataOptions(sorted, profile) {
    const options = { tokenizer: sorted.tokenizer ? fileWord(sorted.tokenizer.name) : "built-in" };
    if (sorted.template) options.template = fileWord(sorted.template.name);
    else if (sorted.tokenizer && !sorted.config) options.template = profile.template?.split(" ")[0] ?? "none"; // the family's
    if (profile.bad_rows) options["bad-rows"] = "skip";
    return { words: sorted.files.map((file) => (file === "example" ? "example" : fileWord(file.name))), options };
}

// A profile that was made elsewhere, or null.
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
    ["What is trained", ["model", "tokens", "epochs", "context"]],
    ["How", ["method", "rank", "precision", "checkpointing", "batching", "micro_batch", "global_batch"]],
    ["On what", ["gpu", "gpus", "stack", "price"]],
    ["And beside it", ["retries", "deadline", "budget"]],
];
const reportLayout = [
    ["Recipe", ["method", "rank", "context", "batching", "precision", "checkpointing"]],
    ["Hardware and plan", ["gpu", "gpus", "epochs", "retries", "price"]],
];
const unshown = ["packing"]; // batching says the same

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
        const numeric = ["count", "number", "share", "usd"].includes(field.kind);
        control = element("input", {
            id, name: field.name, type: "text", autocomplete: "off", spellcheck: "false", placeholder: usual ?? "",
            inputmode: numeric ? "decimal" : undefined, list: names ? "names-" + field.name : undefined,
        });
    }
    control.setAttribute("aria-describedby", id + "-help");
    const box = element("div", { class: "field" }, element("label", { for: id }, title(field.name)), control,
        element("p", { class: "help", id: id + "-help" }, field.help));
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

// Values as typed, of the fields that say something.
function readForm(place) {
    const said = {};
    for (const control of place.querySelectorAll("[name]"))
        if (control.value.trim() && !control.disabled) said[control.name] = control.value.trim();
    return said;
}

function fillForm(place, said) {
    for (const control of place.querySelectorAll("[name]")) {
        const value = String(said[control.name] ?? "");
        control.value = value;
        if (control.value !== value) control.value = ""; // a choice that is the usual one, or none
    }
}

// --- what is shown ------------------------------------------------------------

const byId = (id) => document.getElementById(id);

function say(text, isError) {
    byId("status").textContent = isError ? "" : text;
    byId("problem").textContent = isError ? text : "";
    byId("problem").hidden = !isError;
}

// The core's own HTML, which has escaped whatever came from outside. Inside a report its ids would
// stand twice.
function showSections(html, prefix) {
    const made = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("main");
    if (prefix)
        for (const node of made.querySelectorAll("*"))
            for (const name of ["id", "for", "aria-labelledby", "aria-describedby"])
                if (node.hasAttribute(name)) node.setAttribute(name, node.getAttribute(name).replace(/\S+/g, (id) => prefix + id));
    byId("result").replaceChildren(...made.childNodes);
}

// "0.65 GPU hours, 0.50 to 0.89 in eight runs of ten"
function shortAnswer() {
    const text = (selector) => byId("result").querySelector(`.answer ${selector}`)?.firstChild.textContent ?? "";
    return `${text(".big")} ${text(".of")}, ${text(".of span")}`;
}

function markInvalid(place, text) {
    for (const control of place.querySelectorAll("[name]"))
        control.setAttribute("aria-invalid", Boolean(text) && new RegExp(`\\b${control.name.replace("_", "[-_]")}\\b`).test(text));
}

// What the core chose where nothing was said.
function showChosen(place, plan) {
    const chosen = { epochs: plan.workload.epochs, tokens: plan.workload.tokens, ...plan.configuration };
    for (const control of place.querySelectorAll("[name]")) {
        const value = String(chosen[control.name] ?? "");
        const usual = control.querySelector?.("option[value='']");
        if (usual?.dataset.name === "auto") usual.textContent = value && value !== "auto" ? `auto: ${value}` : "auto";
        else if (!usual && value) control.placeholder = value;
    }
}

// A name from outside, with what would hide or turn text shown as what it is, as core/markup does.
const harmless = (name) =>
    [...name.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\u2028\u2029]/gu, (c) => `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)]
        .slice(0, 80).join("");

const today = () => new Date().toISOString().slice(0, 10);
const spell = (number) => number.toLocaleString("en", { maximumFractionDigits: 1 });

// --- plans --------------------------------------------------------------------

// What is known while the page lives: the form's place, whom to ask, what the report's plan was
// asked and the form does not show, and the data.
function makeLive(asker, reported) {
    return { place: byId("form"), asker, reported, data: null, files: [], model: "", busy: false, again: false };
}

function requestOf(live) {
    const said = { ...live.reported?.request };
    for (const control of live.place.querySelectorAll("[name]")) delete said[control.name];
    Object.assign(said, readForm(live.place));
    if (live.data) for (const name of ["tokens", "examples", "mean_length"]) delete said[name];
    return said;
}

// What differs stands behind the answer, once something does.
function whatIfSections(live) {
    const same = JSON.stringify(readForm(live.place)) === live.first;
    return same ? ["answer"] : ["answer", "compare", "memory", "mistakes"];
}

async function showPlan(live, said) {
    const started = performance.now();
    const answer = await live.asker.ask("plan", said);
    if (answer.code === stopped) return;
    const plan = JSON.parse(answer.text);
    const refused = plan.kind === "error";
    markInvalid(live.place, refused && plan.text);
    if (refused) {
        say(plan.text.replace(/^request: /, ""), true);
    } else {
        const sections = await live.asker.ask("sections", live.reported ? { only: whatIfSections(live) } : {});
        if (sections.code === stopped) return;
        showSections(sections.text, live.reported ? "what-if-" : "");
        showChosen(live.place, plan);
        say(shortAnswer());
        byId("result").dataset.plan = answer.text;
    }
    const words = commandWords(said, live.data);
    byId("command").replaceChildren(...words.flatMap((word) => [element("span", {}, shellWord(word)), " "]).slice(0, -1));
    byId("command").dataset.words = JSON.stringify(words);
    byId("copied").textContent = "";
    byId("live").dataset.milliseconds = performance.now() - started;
}

// The offers for the plan that is shown; the next change takes them away.
async function showHosts(live) {
    byId("hosts").disabled = true;
    const answer = await live.asker.ask("hosts", { today: today() });
    const sections = answer.code > 1 ? answer : await live.asker.ask("sections", {});
    byId("hosts").disabled = false;
    if (sections.code === stopped) return;
    if (sections.code > 1) return say(JSON.parse(sections.text).text, true);
    showSections(sections.text, "");
    byId("result").querySelector("#offers")?.scrollIntoView();
}

// One plan at a time: what changes meanwhile is seen by the next.
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

// An estimate is for the model's family: for another model the data is counted anew.
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
          (profile.bad_rows ? `; ${spell(profile.bad_rows)} rows left out` : "")
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
    if (!byId("progress").hidden) await live.asker.stop(); // of other files
    live.files = files;
    live.data = null;
    try {
        if (!sorted.files.length) throw new Error("a tokenizer alone holds no examples: drop the data with it");
        const made = sorted.files.length === 1 && (await readProfile(sorted.files[0]));
        const profile = made ? await takeProfile(live, made, sorted.files[0].name) : await count(live, sorted);
        if (!profile) return;
        showData(live, profile, sorted.files.map((file) => (file === "example" ? "The example data" : harmless(file.name))).join(", "));
        await update(live);
    } catch (failure) {
        showData(live, null);
        say(failure.message, true);
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
    const tell = (text) => (byId("copied").textContent = text);
    const select = () => {
        getSelection().selectAllChildren(byId("command"));
        tell("Selected: copy it with your keyboard");
    };
    if (!navigator.clipboard) return select();
    return navigator.clipboard.writeText(byId("command").textContent).then(() => tell("Copied"), select);
}

function listenToForm(live, first) {
    live.place.addEventListener("input", ({ target }) => target.name !== "model" && changed(live));
    live.place.addEventListener("change", ({ target }) => target.name === "model" && changed(live));
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

const said = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

function listenToAddress(live) {
    addEventListener("hashchange", () => {
        if (new URLSearchParams(readForm(live.place)).toString() === location.hash.slice(1)) return;
        fillForm(live.place, said());
        changed(live);
    });
}

async function startPage(live) {
    const first = { model: "llama-3.1-8b", tokens: "20M" };
    fillForm(live.place, location.hash.length > 1 ? said() : first);
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
        byId("what-if").hidden = true; // a report of other documents
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
    start().catch((failure) => say(`This browser cannot run the core: ${failure.message}`, true));
