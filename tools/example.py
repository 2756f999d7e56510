#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# example: writes data/example.jsonl, the small dataset that ships with the program.
#
# 300 conversations of a bicycle shop's assistant, put together from sentences written for it: one to
# four turns, with and without a system message, some with long step-by-step answers, so that the
# lengths have the shape of real instruction data. Same bytes on every run.
import json
import random

random.seed(20260815)

SYSTEM = [
    "You are the assistant of a small bicycle shop. Answer briefly and say when a mechanic should look at it.",
    "You help customers of a bicycle shop. Use metric units.",
    "You write for the workshop's customers: friendly, exact, no jargon.",
]
PARTS = {
    "chain": ("skips under load", "measure its stretch with a chain gauge", "a worn chain also wears the cassette"),
    "front brake": ("squeals when I stop", "clean the rim or the rotor with alcohol", "glazed pads have to be replaced"),
    "rear derailleur": ("does not reach the largest sprocket", "turn the barrel adjuster half a turn outwards", "a bent hanger cannot be tuned away"),
    "headset": ("has play when I brake", "loosen the stem bolts, snug the top cap, tighten the stem again", "too much preload damages the bearings"),
    "bottom bracket": ("creaks with every pedal stroke", "check the crank bolts and the pedals first", "a dry thread creaks as loudly as a worn bearing"),
    "rear wheel": ("wobbles from side to side", "find the two spokes next to the wobble and turn their nipples a quarter", "a dented rim will not become true"),
    "saddle": ("slips down while riding", "clean post and clamp and use assembly paste", "a carbon post must not be greased"),
    "tyre": ("loses air overnight", "hold the inflated tube under water and look for bubbles", "a brittle valve is as common as a puncture"),
    "pedal": ("is hard to unscrew", "the left one has a left-hand thread: turn it clockwise", "the thread wants grease before it goes back"),
    "dynamo light": ("flickers at low speed", "check the two plugs at the hub and the ground wire", "a corroded contact looks like a broken lamp"),
}
BIKES = ["touring bike", "city bike", "gravel bike", "old road bike", "cargo bike", "mountain bike", "folding bike", "tandem"]
TOWNS = ["Lisbon", "Ghent", "Turku", "Graz", "Lyon", "Leeds", "Kraków", "Bergen", "Utrecht", "Bilbao"]
CLOSERS = [
    "If that does not help, bring it in and we will have a look.",
    "The whole thing takes about a quarter of an hour.",
    "Tell me how it went, then we can go on from there.",
    "It is a cheap part, so do not wait too long.",
    "You need no special tools for this.",
]
WHY = [
    "Dirt and water get in, the lubricant leaves, and metal runs on metal.",
    "The load is small but it comes back with every turn, so small play grows.",
    "It was probably set up well once and has settled since.",
    "Most of these noises travel along the frame and seem to come from somewhere else.",
]


def repair():
    part, (fault, first, warning) = random.choice(list(PARTS.items()))
    bike = random.choice(BIKES)
    ask = random.choice([
        f"The {part} of my {bike} {fault}. What can I do?",
        f"My {bike}: the {part} {fault}, since last week. Is that dangerous?",
        f"{part.capitalize()} {fault}. Can I fix it myself?",
    ])
    answer = f"{first[0].upper()}{first[1:]}. "
    if random.random() < 0.6:
        answer += random.choice(WHY) + " "
    answer += f"Keep in mind that {warning}. {random.choice(CLOSERS)}"
    follow = (random.choice(["Thanks, that worked.", "It is a little better but not gone.", "Which tool do I need for it?"]),
              random.choice(["Good to hear. Ride it for a week and check once more.",
                             f"Then repeat it once, slowly, and watch the {part} while you do. {random.choice(CLOSERS)}",
                             "A 5 mm hex key and a clean rag are enough for most of it."]))
    return [(ask, answer)] + ([follow] if random.random() < 0.4 else [])


def gears():
    front, rear, rate = random.choice([28, 30, 34, 39, 42, 46, 50]), random.choice([11, 13, 15, 17, 21, 25, 28, 32]), random.choice([60, 70, 80, 90])
    metres = 2.1 * front / rear
    speed = metres * rate * 60 / 1000
    return [(f"How fast do I go with {front} teeth in front and {rear} behind at {rate} turns a minute?",
             f"One turn of the crank moves you {front} / {rear} = {front / rear:.2f} wheel turns. With a circumference of 2.1 m "
             f"that is {metres:.2f} m. At {rate} turns a minute: {metres:.2f} m × {rate} × 60 = {speed:.1f} km/h.")]


def tour():
    town, days, km = random.choice(TOWNS), random.randint(2, 9), random.choice([40, 55, 70, 85, 100])
    count = random.randint(3, 3 + days)
    lines = [f"{i + 1}. {random.choice(['Ride', 'Roll', 'Climb', 'Follow the river'])} {km + random.randint(-15, 15)} km "
             f"{random.choice(['along the canal', 'through the hills', 'on quiet lanes', 'by the coast', 'on the old railway'])}, "
             f"{random.choice(['lunch in a village', 'a swim at noon', 'one long climb', 'flat all the way', 'bakery after 20 km'])}, "
             f"{random.choice(['camp site', 'hostel', 'small hotel', 'friends'])} in the evening." for i in range(count)]
    return [(f"Plan a {count}-day tour from {town}, about {km} km a day, on a {random.choice(BIKES)}.",
             f"From {town}, with luggage and time to look around:\n\n" + "\n".join(lines) +
             f"\n\nCarry two tubes, a multi-tool, a chain link and {random.randint(2, 3)} litres of water. {random.choice(CLOSERS)}")]


def code():
    unit, factor = random.choice([("miles", 1.609344), ("feet", 0.3048), ("inches", 0.0254), ("yards", 0.9144)])
    name = f"{unit}_to_{'kilometres' if unit == 'miles' else 'metres'}"
    return [(f"Write a C function that converts {unit}, and one line of test.",
             f"```c\ndouble {name}(double {unit})\n{{\n    return {unit} * {factor};\n}}\n\nassert({name}(0) == 0);\n```\n"
             f"The factor {factor} is exact by definition.")]


def checklist():
    parts = random.sample(list(PARTS), random.randint(4, 9))
    lines = [f"- {part}: if it {PARTS[part][0].replace(' I ', ' you ').replace('my ', 'your ')}, {PARTS[part][1]}; {PARTS[part][2]}." for part in parts]
    return [(f"I bought a used {random.choice(BIKES)}. What should I check first?",
             "In this order, before the first long ride:\n" + "\n".join(lines) + f"\n{random.choice(CLOSERS)}")]


def short():
    return [random.choice([
        ("When are you open?", "Monday to Friday from 9 to 18, Saturday until 14."),
        ("What pressure for 37 mm tyres?", "About 3.5 bar behind and 3 bar in front for 75 kg; a little more with luggage."),
        ("Do you rent helmets?", "Yes, 3 euros a day, free with a bike."),
        ("Which oil for a wet winter?", "A wet lube, wiped off well; repeat after every ride in the rain."),
        ("¿Reparan ruedas?", "Sí: centrado en el día, radios nuevos en dos días."),
        ("Wie lange dauert eine Inspektion?", "Zwei Tage; mit Termin einen."),
        ("タイヤの空気圧は?", "35 mm なら 3.5 bar くらいが目安です。"),
    ])]


records, seen = [], set()
while len(records) < 300:
    kind = random.choices([repair, gears, tour, code, checklist, short], [40, 15, 12, 8, 12, 13])[0]
    turns = kind()
    while random.random() < 0.18 and len(turns) < 4:
        turns += random.choice([repair, gears, short])()
    messages = [{"role": "system", "content": random.choice(SYSTEM)}] if random.random() < 0.3 else []
    for ask, answer in turns[:4]:
        messages += [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    if str(messages) not in seen or len(seen) % 100 == 0:  # a repeat or two, as everywhere
        records.append({"messages": messages})
    seen.add(str(messages))

with open("data/example.jsonl", "w", encoding="utf-8") as out:
    for record in records:
        out.write(json.dumps(record, ensure_ascii=False) + "\n")
