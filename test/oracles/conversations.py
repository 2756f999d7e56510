# SPDX-License-Identifier: Apache-2.0
"""Holds the lengths that gpuhours gives conversations against jinja2 and Hugging Face's library.

    conversations.py PROGRAM FOLDER...   each folder has a tokenizer.json and a tokenizer_config.json

Conversations are made here, the same in every run: with and without a system message, of one to four turns, with tools,
calls and their results, as messages and as ShareGPT's turns, with texts of several scripts. jinja2 renders them with the
model's own template, the library counts the tokens, and `gpuhours profile --lengths` must give the same numbers.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import templates

ROWS = int(os.environ.get("ROWS", "300"))
WORDS = ("the model reads a file and writes def x(self): return 12345 it's don't  HTTPServer \n\n - * 漢字かな交じり文 "
         "한국어 नमस्ते мягких français 👩‍👩‍👧 <b> &amp; \"quoted\" \\n {{ braces }} <|not special|> \t tab").split(" ")
TOOL = {"type": "function", "function": {
    "name": "look_up", "description": "Finds a word.", "parameters": {
        "type": "object", "properties": {"word": {"type": "string", "description": "the word"}}, "required": ["word"]}}}


def words(dice):
    return " ".join(dice.choice(WORDS) for _ in range(dice.randint(1, 60))).strip() or "yes"


def conversation(dice):
    """The messages and tools of one row."""
    messages = [{"role": "system", "content": words(dice)}] if dice.random() < 0.5 else []
    tools = [TOOL] if dice.random() < 0.4 else None
    for _ in range(dice.randint(1, 4)):
        messages.append({"role": "user", "content": words(dice)})
        if tools and dice.random() < 0.5:
            call = {"name": "look_up", "arguments": {"word": words(dice)[:20]}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [
                {"id": "call%05d" % dice.randint(0, 99999), "type": "function", "function": call}]})
            messages.append({"role": "tool", "content": json.dumps({"found": words(dice)[:30]}, ensure_ascii=False),
                             "tool_call_id": messages[-1]["tool_calls"][0]["id"]})
        messages.append({"role": "assistant", "content": words(dice)})
    return messages, tools


def as_messages(messages, tools):
    return {"messages": messages, **({"tools": tools} if tools else {})}


def as_turns(messages, tools):
    """The same row as ShareGPT's: who speaks is in `from`, a call is its JSON."""
    turns = []
    for message in messages:
        if message.get("tool_calls"):
            turns.append({"from": "function_call", "value": json.dumps(message["tool_calls"][0]["function"])})
        else:
            names = {"user": "human", "assistant": "gpt", "tool": "observation", "system": "system"}
            turns.append({"from": names[message["role"]], "value": message["content"]})
    return {"conversations": turns, **({"tools": json.dumps(tools)} if tools else {})}


def without_ids(messages):
    """What ShareGPT's turns say: calls have no ids."""
    kept = []
    for message in messages:
        message = {key: value for key, value in message.items() if key != "tool_call_id"}
        if "tool_calls" in message:
            calls = [{key: call[key] for key in ("type", "function")} for call in message["tool_calls"]]
            message["tool_calls"] = calls
        kept.append(message)
    return kept


def lengths(program, folder, rows):
    """Tokens of each row, by `profile --lengths`."""
    with tempfile.TemporaryDirectory() as work:
        data, csv = os.path.join(work, "rows.jsonl"), os.path.join(work, "lengths.csv")
        with open(data, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        day = templates.TODAY.strftime("%Y-%m-%d")
        done = subprocess.run([program, "profile", data, "--model", folder, "--date", day, "--lengths", csv,
                               "--out", os.path.join(work, "profile.json")], capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"conversations: {done.stderr.decode().strip()}")
        with open(csv, encoding="utf-8") as file:
            return [int(line.split(",")[0]) for line in file.read().splitlines()[1:]]


def counted(folder, texts):
    """Tokens of each text, by the library."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run(["node", "test/oracles/count.mjs", f"{folder}/tokenizer.json"], input=lines.encode(),
                          stdout=subprocess.PIPE, check=True)
    return [int(line) for line in done.stdout.split()]


def compare(program, folder):
    """The number of rows that differ, of both shapes."""
    sources, tokens = templates.read_config(f"{folder}/tokenizer_config.json")
    wrong = rows = 0
    for shape, keep in ((as_messages, list), (as_turns, without_ids)):
        dice, made, texts = random.Random(7), [], []
        while len(made) < ROWS:
            messages, tools = conversation(dice)
            source = sources.get("tool_use" if tools and "tool_use" in sources else "default", sources.get(None))
            defaults = {"documents": None, "add_generation_prompt": False}
            shown = templates.render(source, {**defaults, **tokens, "messages": keep(messages), "tools": tools})
            if "error" in shown:  # the template refuses it, as some do calls without ids
                continue
            made.append(shape(messages, tools))
            texts.append(shown["text"])
        got, wanted = lengths(program, folder, made), counted(folder, texts)
        differ = [i for i in range(ROWS) if len(got) != ROWS or got[i] != wanted[i]]
        for i in differ[:1]:
            print("differs:", json.dumps(made[i], ensure_ascii=False)[:600], "\n  rendered", repr(texts[i])[:600],
                  "\n  wanted", wanted[i], "got", got[i] if len(got) == ROWS else f"{len(got)} rows")
        wrong, rows = wrong + len(differ), rows + ROWS
    print(f"conversations: {os.path.basename(folder)}: {rows} rows, {wrong} differ")
    return wrong


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(1 if sum(compare(sys.argv[1], folder) for folder in sys.argv[2:]) else 0)
