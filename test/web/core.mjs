// SPDX-License-Identifier: Apache-2.0
// core.mjs: loads the page's module as the page does, outside a browser.

import { readFileSync } from "node:fs";

const functions = "openCore, countFiles, commandWords, shellWord, fileWord, sortFiles, dataOptions";
export const page = new Function(`${readFileSync("web/live.js", "utf8")}; return { ${functions} };`)();
export const open = () => page.openCore(readFileSync("build/web/core.wasm"));

// Where two documents differ: numbers by more than 1e-9 of themselves, or of 1e-5 where they are what rounding leaves of a
// difference; anything else at all.
export function differences(a, b, where = "") {
    if (typeof a === "number" && typeof b === "number")
        return a === b || Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b), 1e-5) ? [] : [`${where}: ${a}, ${b}`];
    if (a !== null && b !== null && typeof a === "object" && typeof b === "object")
        return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((key) => differences(a[key], b[key], `${where}.${key}`));
    return a === b ? [] : [`${where}: ${a}, ${b}`];
}

// The same numbers on every run (Marsaglia's xorshift).
export function makeRandom(seed) {
    let state = seed;
    const next = () => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return (state >>> 0) / 4294967296;
    };
    return { next, pick: (list) => list[Math.floor(next() * list.length)] };
}
