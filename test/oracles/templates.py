# SPDX-License-Identifier: Apache-2.0
"""Renders chat templates with jinja2, set up as transformers sets it up, and holds gpuhours against it.

    templates.py expect                     writes test/data/templates/expected.json
    templates.py compare PROGRAM CONFIG...  compares on tokenizer_config.json and .jinja files

Both use the conversations of test/data/templates. An error of jinja2 must be an error of gpuhours;
a refusal of gpuhours that names a construct outside its subset is counted apart.
"""
import datetime
import glob
import json
import os
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

DATA = "test/data/templates"
TODAY = datetime.datetime(2024, 7, 26)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class Generation(jinja2.ext.Extension):
    """Marks what stands between generation and endgeneration."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_mark", [])
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _mark(self, caller):
        text = caller()
        before = "".join(self.environment.written)
        self.environment.spans.append([len(before.encode()), len((before + text).encode())])
        return text


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = TODAY.strftime
    return made


def render(source, variables):
    """The text and spans, or the error."""
    env = environment()
    env.spans, env.written = [], []
    try:
        for piece in env.from_string(source).generate(variables):
            env.written.append(piece)
    except Exception as error:
        return {"error": type(error).__name__ + ": " + str(error)}
    return {"text": "".join(env.written), "spans": env.spans}


def context(case, tokens):
    defaults = {"tools": None, "documents": None, "add_generation_prompt": False}
    return {**defaults, **tokens, **case["variables"]}


def conversations():
    with open(f"{DATA}/conversations.json", encoding="utf-8") as file:
        return json.load(file)


def own_templates():
    for path in sorted(glob.glob(f"{DATA}/*.jinja")):
        with open(path, encoding="utf-8", newline="") as file:
            yield os.path.basename(path), file.read()


def expect():
    cases = []
    for name, source in own_templates():
        for case in conversations():
            cases.append({"template": name, "case": case["name"], **render(source, context(case, TOKENS))})
    with open(f"{DATA}/errors.txt", encoding="utf-8") as file:
        for number, line in enumerate(file.read().splitlines()):
            case = conversations()[2]
            cases.append({"line": number, **render(line, context(case, TOKENS))})
    with open(f"{DATA}/expected.json", "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(len(cases), "cases written")


def token_text(value):
    return value.get("content") if isinstance(value, dict) else value


def read_config(path):
    """Templates by name, and the special tokens, of a tokenizer_config.json or a .jinja file."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    if path.endswith(".jinja"):
        return {None: text}, TOKENS
    config = json.loads(text)
    tokens = {key: token_text(config[key]) for key in config
              if key in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
              and token_text(config[key])}
    template = config.get("chat_template")
    if isinstance(template, list):
        return {entry["name"]: entry["template"] for entry in template}, tokens
    return ({None: template} if template else {}), tokens


def answers(source, variables, whole):
    """Byte ranges of what the assistant says, by rendering prefixes; None where prefixes do not tell."""
    if "generation" in source.replace("add_generation_prompt", ""):
        return None
    messages, spans = variables["messages"], []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = render(source, {**variables, "messages": messages[:i], "add_generation_prompt": True})
        until = render(source, {**variables, "messages": messages[:i + 1], "add_generation_prompt": False})
        if "error" in before or "error" in until or not whole.startswith(until["text"]) \
                or not until["text"].startswith(before["text"]):
            return None
        span = [len(before["text"].encode()), len(until["text"].encode())]
        if spans and spans[-1][1] == span[0]:
            spans[-1][1] = span[1]
        elif span[0] < span[1]:
            spans.append(span)
    return spans


def printed(text, spans):
    return text + "".join(f"\n{start} {end}" for start, end in spans)


def run(program, path, which, variables, *more):
    command = [program, "template", "--template", path, "--messages", "-", "--date", TODAY.strftime("%Y-%m-%d"), *more]
    if which:
        command += ["--which", which]
    return subprocess.run(command, input=json.dumps(variables, ensure_ascii=False).encode(), capture_output=True,
                          check=False, timeout=60)


def compare_labels(program, path, which, source, variables, whole):
    """1 if the labels are equal, 0 if there is nothing to compare, -1 if they differ."""
    strings = all(isinstance(m.get("content"), (str, type(None))) for m in variables["messages"])
    if variables["add_generation_prompt"] or variables["documents"] or not strings or not variables["messages"]:
        return 0
    spans = answers(source, variables, whole)
    if not spans:
        return 0
    got = run(program, path, which, variables, "--labels", "assistant").stdout.decode("utf-8", "replace")
    if got == printed(whole, spans):
        return 1
    print("labels differ:", path, spans, got[len(whole):].split("\n"))
    return -1


def compare(program, paths):
    equal = raised = refused = labelled = 0
    wrong = []
    templates = 0
    for path in paths[:: int(os.environ.get("EVERY", "1"))]:
        sources, tokens = read_config(path)
        for which, source in sources.items():
            templates += 1
            for case in conversations():
                for prompt in (False, True):
                    variables = {**context(case, tokens), "add_generation_prompt": prompt}
                    wanted = render(source, variables)
                    got = run(program, path, which, variables)
                    label = f"{path} {which or ''} {case['name']} prompt={prompt}"
                    if got.returncode == 0 and got.stdout.decode("utf-8", "replace") == wanted.get("text"):
                        equal += 1
                        labels = compare_labels(program, path, which, source, variables, wanted["text"])
                        labelled += labels > 0
                        if labels < 0:
                            wrong.append(label)
                    elif got.returncode == 3 and "error" in wanted:
                        raised += 1
                    elif got.returncode == 3 and b"not supported" in got.stderr:
                        refused += 1
                        print("refused:", label, got.stderr.decode().strip())
                    else:
                        wrong.append(label)
                        print("differs:", label, "\n  wanted", repr(wanted)[:600], "\n  got   ",
                              repr(got.stdout.decode("utf-8", "replace"))[:600], got.returncode,
                              got.stderr.decode().strip())
    cases = templates * 2 * len(conversations())
    print(f"templates: {templates} templates, {cases} cases: {equal} equal, {raised} both raise, {refused} refused by "
          f"name, {len(wrong)} differ; labels equal in {labelled} (jinja2 {jinja2.__version__})")
    return 1 if wrong or not equal else 0


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] == "expect":
        expect()
    elif len(sys.argv) > 3 and sys.argv[1] == "compare":
        sys.exit(compare(sys.argv[2], sys.argv[3:]))
    else:
        sys.exit(__doc__)
