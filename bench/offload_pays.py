# SPDX-License-Identifier: Apache-2.0
"""offload_pays.py: where activations in host memory beat recomputation, by arithmetic: the table of docs/decisions.md.

Llama 3.1 8B, one row. For each card, length and method: the fewest layers recomputed that fit, as the engine raises its levels,
without and with `train --offload N`. Nothing here was measured but the cards' rates of a matrix product (data/gpus.csv).
"""

C, F, Q, K, HEADS, LAYERS, WEIGHTS = 4096, 14336, 4096, 1024, 32, 32, 218.1e6  # weights of a layer
PRODUCTS, ATTENTION, ATTENTION_BACK, BANDWIDTH = 0.75, 0.65, 0.5, 0.85  # of the card's rates
CARDS = {  # bytes, bf16 FLOP/s measured, bytes/s of memory, bytes/s of the link each way
    "H200": (150.7e9, 794.5e12, 4.8e12, 50e9),
    "H100": (85.5e9, 794.5e12, 3.35e12, 50e9),
    "L40S": (48.3e9, 252e12, 864e9, 25e9),
    "4090": (25.7e9, 178.8e12, 1008e9, 25e9),
}
BASE = {"LoRA": 16.1e9, "QLoRA": 5.7e9}
OTHER, WORKSPACE = 1.6e9, 193e3  # logits, states and driver; bytes a token of tensors that all layers share

NONE = 2 * (4 * C + 3 * F + 2 * Q + 2 * K) + 4 * HEADS + 8  # kept bytes of a token and layer
KEPT = {"none": NONE}
KEPT["norms"] = KEPT["none"] - 2 * (2 * C + F)
KEPT["gate and up"] = KEPT["norms"] - 4 * F
KEPT["projections"] = KEPT["gate and up"] - 2 * (Q + 2 * K + C)
KEPT["whole layers"] = KEPT["projections"] - 2 * Q - 4 * HEADS
LEVELS = list(KEPT)


def seconds(card, tokens, method):
    """Of a token and layer: forward, backward, and what each level recomputes."""
    _, flops, memory, _ = CARDS[card]
    products, moved = PRODUCTS * flops, BANDWIDTH * memory
    unpacked = 2.5 * WEIGHTS / moved / tokens if method == "QLoRA" else 0
    forward = 2 * WEIGHTS / products + 2 * tokens * Q / (ATTENTION * flops) + unpacked
    backward = 2 * WEIGHTS / products + 5 * tokens * Q / (ATTENTION_BACK * flops) + unpacked
    again = {
        "none": 0,
        "norms": (8 * C + 6 * F) / moved,
        "gate and up": 4 * C * F / products,
        "projections": 2 * C * (2 * Q + 2 * K) / products,
        "whole layers": 2 * tokens * Q / (ATTENTION * flops),
    }
    return forward, backward, again


def best(card, tokens, method, most):
    """The fastest (seconds, offloaded layers, what is recomputed, host bytes) that fits; None: nothing does."""
    size, _, _, link = CARDS[card]
    forward, backward, again = seconds(card, tokens, method)
    attention = size / 16 if card[0] == "H" else 0  # workspace of the reproducible backward pass
    room = (0.985 * size - BASE[method] - OTHER - WORKSPACE * tokens - attention) / tokens
    found, before = None, 0.0
    for level, upper in zip(LEVELS, LEVELS[1:] + [None]):
        for raised in range(LAYERS + 1) if upper else [0]:
            kept = (KEPT[level] * (LAYERS - raised) + (KEPT[upper] * raised if upper else 0)) / LAYERS
            recomputed = before + (again[upper] * raised / LAYERS if upper else 0)
            for offloaded in [0, *range(3, most + 1)]:
                if kept * (LAYERS - offloaded + (2 if offloaded else 0)) > room:
                    continue
                host = kept * max(0, offloaded - 2)
                copy = host / LAYERS / link
                total = forward + backward + recomputed + max(0, copy - forward) + max(0, copy - backward)
                if found is None or total < 0.9999 * found[0]:
                    what = f"{upper} in {raised}" if raised else level
                    found = (total, offloaded, what, host * tokens)
        before += again[upper] if upper else 0
    return found


def rate(total):
    return f"{1 / (total * LAYERS):,.0f}"


for method in BASE:
    for tokens in (32768, 131072):
        for card in CARDS:
            plain, moved = best(card, tokens, method, 0), best(card, tokens, method, LAYERS)
            line = f"| {method}, {tokens:,} | {card} | "
            line += f"{plain[2]}: {rate(plain[0])} | " if plain else "does not fit | "
            line += f"{moved[1]}, {moved[3] / 1e9:.0f} GB, {moved[2]}: {rate(moved[0])} | " if moved else "does not fit | "
            print(line + (f"{100 * (plain[0] / moved[0] - 1):.1f} % |" if plain and moved else "|"))
