// page: the form, what it asks of the core, and what is shown. The numbers, the sentences and the
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
    function call(verb, input) {
        give(input instanceof Uint8Array ? input : new TextEncoder().encode(JSON.stringify(input ?? {})));
        const code = exports[verb]();
        const from = exports.result();
        return { code, text: new TextDecoder().decode(memory(from, exports.result_size())) };
    }
    function push(chunk, ended) {
        give(new Uint8Array());
        const at = exports.data_room(chunk.length);
        memory(at, chunk.length).set(chunk);
        const code = exports.data_push(chunk.length, ended);
        return { code, text: new TextDecoder().decode(memory(exports.result(), exports.result_size())) };
    }
    return { call, push };
}

// Counts dropped files: { files, tokenizer, config, template, model, date } → a profile. A file is
// a File, or the word "example".
async function countFiles(core, job, progress) {
    const failed = (answer) => answer.code > 1;
    const names = {};
    for (const [key, verb] of [["tokenizer", "tokenizer"], ["config", "config"], ["template", "chat_template"]])
        if (job[key]) {
            core.call(verb, new Uint8Array(await job[key].arrayBuffer()));
            names[key] = job[key].name;
        }
    let answer = core.call("data_begin", { ...names, model: job.model, date: job.date });
    let done = 0;
    for (const file of job.files) {
        if (failed(answer)) return answer;
        if (file === "example") {
            answer = core.call("data_example");
            continue;
        }
        answer = core.call("data_file", { name: file.name, bytes: file.size });
        let stream = file.stream();
        const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
        const counted = new TransformStream({
            transform(chunk, out) {
                done += chunk.length;
                progress(done);
                out.enqueue(chunk);
            },
        });
        stream = stream.pipeThrough(counted);
        if (head[0] === 0x1f && head[1] === 0x8b)
            stream = stream.pipeThrough(new DecompressionStream("gzip"));
        const reader = stream.getReader();
        for (let part = await reader.read(); !part.done && !failed(answer); part = await reader.read())
            answer = core.push(part.value, false);
        if (!failed(answer)) answer = core.push(new Uint8Array(), true);
        else await reader.cancel();
    }
    return failed(answer) ? answer : core.call("data_end");
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

// Asks a worker of its own; stop() ends whatever it does, and the next question starts another.
function makeAsker(bytes) {
    let worker, waiting, last = 0;
    function start() {
        const source = [openCore, countFiles, workerMain].join("\n") + "\nworkerMain();";
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
        for (const wait of waiting.values()) wait.resolve({ code: -1, text: "" });
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
        if (name === "tokens" && data) continue;
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
    else if (sorted.tokenizer && !sorted.config) options.template = "none";
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

const spell = (number) => number.toLocaleString("en", { maximumFractionDigits: 1 });

// --- putting it together ------------------------------------------------------

async function start() {
    const place = byId("form");
    const readScript = (id) => JSON.parse(byId(id)?.textContent || "null");
    const reported = readScript("report-plan");
    const asker = makeAsker(await unpackModule(byId("core-module").textContent));
    const live = { data: null, files: [], queued: false, busy: false };

    const opened = await asker.start();
    makeForm(place, JSON.parse(opened.text), reported ? reportLayout : pageLayout, !reported);
    byId("live").hidden = false;

    // What the report's plan was asked, and what the form does not show.
    const base = reported?.request ?? {};
    const fromHash = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const request = () => {
        const said = { ...base };
        for (const control of place.querySelectorAll("[name]")) delete said[control.name];
        return { ...said, ...readForm(place) };
    };

    async function update() {
        if (live.busy) return void (live.queued = true);
        live.busy = true;
        do {
            live.queued = false;
            const said = request();
            const asked = { ...said };
            if (live.data) delete asked.tokens;
            const started = performance.now();
            const plan = await asker.ask("plan", asked);
            if (plan.code === -1) break; // the worker was stopped
            const document_ = JSON.parse(plan.text);
            const failed = document_.kind === "error";
            markInvalid(place, failed && document_.text);
            if (failed) {
                say(document_.text.replace(/^request: /, ""), true);
            } else {
                const sections = await asker.ask("sections", {});
                if (sections.code === -1) break;
                showSections(sections.text, reported ? "w-" : "");
                showChosen(place, document_);
                say(byId("result").querySelector(".answer")?.textContent.replace(/\s+/g, " ").trim() ?? "");
                byId("result").dataset.plan = plan.text;
            }
            const words = commandWords(said, live.data);
            byId("command").textContent = words.map(shellWord).join(" ");
            byId("command").dataset.words = JSON.stringify(words);
            byId("live").dataset.milliseconds = performance.now() - started;
            if (!reported) location.replace("#" + new URLSearchParams(readForm(place)));
        } while (live.queued);
        live.busy = false;
        byId("live").dataset.updates = Number(byId("live").dataset.updates ?? 0) + 1;
    }

    function showData(profile, what) {
        byId("data-summary").textContent = profile
            ? `${what}: ${spell(profile.examples)} examples, ${spell(profile.tokens)} tokens, ` +
              (profile.tokenizer.exact ? "counted exactly" : `estimated (${profile.tokenizer.name})`)
            : "";
        byId("data-forget").hidden = !profile;
        place.querySelector("[name=tokens]").disabled = Boolean(profile);
    }

    const today = () => new Date().toISOString().slice(0, 10);

    async function takeData(files) {
        live.files = files;
        const sorted = sortFiles(files);
        if (!sorted.files.length) return say("a tokenizer alone holds no examples; drop the data with it", true);
        const profile = sorted.files.length === 1 && (await readProfile(sorted.files[0]));
        const what = sorted.files.map((file) => (file === "example" ? "The example data" : harmless(file.name))).join(", ");
        live.data = null;
        if (profile) {
            const answer = await asker.ask("data_profile", profile);
            if (answer.code) return say(JSON.parse(answer.text).text, true);
            live.data = { words: [], options: { profile: fileWord(sorted.files[0].name) } };
            showData(profile, what);
            return update();
        }
        const total = sorted.files.reduce((sum, file) => sum + (file.size ?? 0), 0);
        const started = performance.now();
        byId("progress").hidden = false;
        byId("bar").max = total || 1;
        const answer = await asker.ask("count", { ...sorted, model: readForm(place).model ?? "", date: today() }, (done) => {
            const seconds = (performance.now() - started) / 1000;
            byId("bar").value = done;
            byId("rate").textContent = `${spell(done / 1e6)} of ${spell(total / 1e6)} MB, ${spell(done / 1e6 / seconds)} MB/s`;
        });
        byId("progress").hidden = true;
        if (answer.code === -1) return;
        const counted = JSON.parse(answer.text);
        if (answer.code) {
            showData(null);
            return say(counted.text, true);
        }
        live.data = dataOptions(sorted, counted);
        live.model = readForm(place).model;
        byId("live").dataset.profile = answer.text;
        byId("live").dataset.seconds = (performance.now() - started) / 1000;
        showData(counted, what);
        return update();
    }

    function forgetData() {
        live.data = null;
        live.files = [];
        showData(null);
        return asker.ask("data_forget", {}).then(update);
    }

    // An estimate is for the model's family: another model is counted anew.
    function changed() {
        if (live.data?.options.tokenizer === "built-in" && readForm(place).model !== live.model) takeData(live.files);
        else update();
    }

    function copy() {
        const text = byId("command").textContent;
        const done = () => (byId("copied").textContent = "Copied");
        navigator.clipboard ? navigator.clipboard.writeText(text).then(done, select) : select();
        function select() {
            getSelection().selectAllChildren(byId("command"));
            byId("copied").textContent = "Selected: copy it with your keyboard";
        }
    }

    place.addEventListener("input", ({ target }) => target.name !== "model" && changed());
    place.addEventListener("change", ({ target }) => target.name === "model" && changed());
    place.addEventListener("submit", (event) => event.preventDefault());
    byId("reset").addEventListener("click", () => {
        fillForm(place, reported ? base : first);
        changed();
    });
    byId("copy").addEventListener("click", copy);
    const first = { model: "llama-3.1-8b", tokens: "20M" };
    if (reported) {
        fillForm(place, base);
        const profile = readScript("report-profile");
        if (profile && (await asker.ask("data_profile", profile)).code === 0)
            live.data = { words: [], options: { profile: "profile.json" } };
        return update();
    }

    byId("files").addEventListener("change", ({ target }) => target.files.length && takeData([...target.files]));
    byId("example").addEventListener("click", () => takeData(["example"]));
    byId("data-forget").addEventListener("click", forgetData);
    byId("cancel").addEventListener("click", async () => {
        live.files = [];
        live.busy = false;
        await asker.stop();
        byId("progress").hidden = true;
        showData(null);
        update();
    });
    addEventListener("dragover", (event) => {
        event.preventDefault();
        document.body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => event.relatedTarget || document.body.classList.remove("dropping"));
    addEventListener("drop", (event) => {
        event.preventDefault();
        document.body.classList.remove("dropping");
        if (event.dataTransfer.files.length) takeData([...event.dataTransfer.files]);
    });
    addEventListener("hashchange", () => {
        const said = fromHash();
        if (JSON.stringify(said) === JSON.stringify(readForm(place))) return;
        fillForm(place, said);
        changed();
    });
    fillForm(place, location.hash.length > 1 ? fromHash() : first);
    return update();
}

if (typeof document !== "undefined")
    start().catch((failure) => say(`This browser cannot run the core: ${failure.message}`, true));
