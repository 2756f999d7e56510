// SPDX-License-Identifier: Apache-2.0
// images.mjs [write]: holds the tokens of images in test/data/image_tokens.csv, which `make check` holds our own counts
// against, against the processors of npm's @huggingface/transformers: real images of 50 sizes (SIZES) go through each. Families
// whose processor that package does not have are computed here from their documented rule. Run by `make check-oracles`;
// with write, the file is written anew.

import fs from 'node:fs';
import { createRequire } from 'node:module';
const require = createRequire(process.cwd() + '/build/oracles/');
const library = require('@huggingface/transformers');
const { RawImage } = library;
const FILE = 'test/data/image_tokens.csv';

// The same sizes in every run: corners by hand, the rest at random, most of them as cameras and screens have them.
function sizes(skip = () => false) {
    const list = [[336, 336], [337, 336], [448, 448], [672, 672], [896, 896], [1024, 1024], [640, 480], [480, 640], [1920, 1080],
        [1080, 1920], [2000, 100], [100, 1900], [57, 61], [33, 47], [1536, 1537], [512, 512], [1008, 336], [336, 1009], [2304, 1296]];
    let state = 7;
    const below = n => (state = (Math.imul(state, 1103515245) + 12345) >>> 0, Math.floor(state / 4294967296 * n));
    while (list.length < 80) list.push([40 + below(1900), 40 + below(1500)]);
    return list.filter(size => !skip(size)).slice(0, Number(process.env.SIZES ?? 50));
}

// A tokenizer that gives the text back: special tokens are one token each, line ends in a row are one.
const tokenizer = Object.assign(text => ({ text: [text].flat()[0] }),
    { config: { boi_token: '<start_of_image>', image_token: '<image_soft_token>', eoi_token: '<end_of_image>' } });
const count = text => (text.match(/<[^<>]*>|\[IMG[A-Z_]*\]|\n+/g) ?? []).length;

const clip = { do_resize: true, do_center_crop: true, do_normalize: true, do_rescale: true, size: { shortest_edge: 336 },
    crop_size: { width: 336, height: 336 }, image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5], resample: 3 };
const plain = { do_resize: true, do_normalize: true, do_rescale: true, image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5], resample: 3 };
const qwen = (patch_size, min_pixels, max_pixels) => ({ processor: 'Qwen2VLProcessor', images: 'Qwen2VLImageProcessor', config: {},
    image: { ...plain, patch_size, merge_size: 2, temporal_patch_size: 2, min_pixels, max_pixels },
    // Python rounds halves to even and leaves small images to min_pixels; the package differs there.
    skip: ([w, h]) => [w, h].some(side => side < 2 * patch_size || side % (2 * patch_size) === patch_size),
    ask: (p, image) => p('<|vision_start|><|image_pad|><|vision_end|>', image) });
const smol = (side, image_seq_len) => ({ processor: 'Idefics3Processor', images: 'Idefics3ImageProcessor', config: { image_seq_len },
    image: { ...plain, do_image_splitting: true, size: { longest_edge: 4 * side }, max_image_size: { longest_edge: side } },
    rows_alone: true, ask: (p, image) => p('<image>', [[image]]) });
const mistral = (patch_size, spatial_merge_size, longest_edge) => ({ processor: 'PixtralProcessor', images: 'PixtralImageProcessor',
    config: { image_token: '[IMG]', image_break_token: '[IMG_BREAK]', image_end_token: '[IMG_END]', patch_size, spatial_merge_size },
    image: { ...plain, patch_size, spatial_merge_size, size: { longest_edge } }, ask: (p, image) => p(image, '[IMG]') });

const families = {
    'qwen2-vl': qwen(14, 56 * 56, 28 * 28 * 16384),
    'qwen2.5-vl': qwen(14, 56 * 56, 28 * 28 * 16384),
    'qwen3-vl': qwen(16, 256 * 256, 4096 * 4096),
    'llava-1.5': { processor: 'LlavaProcessor', images: 'CLIPImageProcessor', image: clip,
        config: { image_token: '<image>', patch_size: 14, num_additional_image_tokens: 0 }, ask: (p, image) => p(image, '<image>') },
    'gemma-3': { processor: 'Gemma3Processor', images: 'Gemma3ImageProcessor', image: { ...plain, size: { width: 896, height: 896 } },
        config: { image_seq_length: 256 }, ask: (p, image) => p('<start_of_image>', image) },
    'smolvlm': smol(384, 81),
    'smolvlm-small': smol(512, 64),
    'pixtral': mistral(16, 1, 1024),
    'mistral-small': mistral(14, 2, 1540),
};

// --- rules of processors that the package does not have, as their documentation states them ------

const grids = most => { // all of them
    const list = [];
    for (let w = 1; w <= most; w++) for (let h = 1; h <= most; h++) if (w * h <= most) list.push([w, h]);
    return list;
};
const best = (list, better) => list.reduce((a, b) => better(b, a) ? b : a);

function internvl([w, h]) {
    const off = ([a, b]) => Math.abs(w / h - a / b);
    const ordered = grids(12).map((grid, i) => [grid, i]).sort((x, y) => x[0][0] * x[0][1] - y[0][0] * y[0][1] || x[1] - y[1]).map(x => x[0]);
    const [a, b] = best(ordered, (x, y) => off(x) < off(y) || (off(x) === off(y) && w * h > 448 * 448 * x[0] * x[1] / 2));
    return 256 * (a * b + (a * b > 1 ? 1 : 0)) + 2;
}

function canvas([w, h], side, most) {
    const list = grids(most).map(([a, b]) => ({ tiles: a * b, scale: Math.min(a * side / w, b * side / h) }));
    const holds = list.filter(x => x.scale >= 1);
    return (holds.length ? best(holds, (x, y) => x.scale < y.scale || (x.scale === y.scale && x.tiles < y.tiles))
        : best(list, (x, y) => x.scale > y.scale || (x.scale === y.scale && x.tiles < y.tiles))).tiles;
}

function llama4(size) {
    const tiles = canvas(size, 336, 16);
    return 3 + 144 + (tiles > 1 ? tiles * 145 : 0);
}

function anyres([w, h], side, list, most) { // list of [rows, columns]
    let effective = 0, wasted = Infinity, grid;
    for (const [b, a] of list) {
        const scale = Math.min(a * side / w, b * side / h);
        const kept = Math.min(Math.trunc(w * scale) * Math.trunc(h * scale), w * h), rest = a * b * side * side - kept;
        if (kept > effective || (kept === effective && rest < wasted)) [effective, wasted, grid] = [kept, rest, [a, b]];
    }
    const n = Math.floor(side / 14);
    let [columns, rows] = grid.map(x => x * n);
    const whole = x => Math.trunc(Number(x.toFixed(7)));
    if (w / h > columns / rows) rows -= 2 * Math.floor((rows - whole(h * (columns / w))) / 2);
    else columns -= 2 * Math.floor((columns - whole(w * (rows / h))) / 2);
    const ratio = most ? Math.sqrt(rows * columns / (most * n * n)) : 0;
    if (ratio > 1.1) [rows, columns] = [Math.floor(rows / ratio), Math.floor(columns / ratio)];
    return rows * columns + rows + n * n;
}

const documented = {
    'llava-next': size => anyres(size, 336, [[1, 2], [2, 1], [2, 2], [3, 1], [1, 3]], 0),
    'llava-onevision': size => anyres(size, 384, [1, 2, 3, 4, 5, 6].flatMap(b => [1, 2, 3, 4, 5, 6].map(a => [b, a])), 9),
    'internvl': internvl,
    'llama-4': llama4,
    'llama-3.2-vision': () => 1,
};

// -------------------------------------------------------------------------------------------------

// The rows and columns of tiles, without the pixels: enlarging them takes minutes.
function rows_alone(images) {
    return async batch => {
        const image = batch[0][0], [width, height] = images.get_resize_output_image_size(image, images.size);
        const even = n => n + n % 2; // as in Python, where the shorter side becomes even
        const dims = width >= height ? [even(height), width] : [height, even(width)];
        const fitted = images.get_resize_for_vision_encoder({ dims }, images.max_image_size.longest_edge);
        const side = images.max_image_size.longest_edge;
        return { rows: [[fitted.height / side]], cols: [[fitted.width / side]] };
    };
}

async function rows() {
    const list = [];
    for (const [name, family] of Object.entries(families)) {
        const images = new library[family.images](family.image);
        const processor = new library[family.processor](family.config,
            { image_processor: family.rows_alone ? rows_alone(images) : images, tokenizer }, null);
        for (const [width, height] of sizes(family.skip)) {
            const image = new RawImage(new Uint8ClampedArray(width * height * 3), width, height, 3);
            list.push([name, width, height, count((await family.ask(processor, image)).text), 'npm']);
        }
    }
    for (const [name, rule] of Object.entries(documented))
        for (const [width, height] of sizes()) list.push([name, width, height, rule([width, height]), 'rule']);
    return list;
}

const text = '# Tokens of images: test/oracles/images.mjs wrote this; npm: by the processor of npm\'s @huggingface/transformers.\n' +
    'family,width,height,tokens,from\n' + (await rows()).map(row => row.join(',') + '\n').join('');
if (process.argv[2] === 'write') {
    fs.writeFileSync(FILE, text);
} else {
    const held = new Set(fs.readFileSync(FILE, 'utf8').split('\n')), found = text.split('\n');
    const differ = found.filter(line => !held.has(line));
    for (const line of differ.slice(0, 10)) console.log(`not in ${FILE}: ${line}`);
    const families = new Set(found.slice(2).map(line => line.split(',')[0])).size - 1;
    console.log(`images: ${found.length - 3} sizes of ${families} families, ${differ.length} differ`);
    process.exitCode = differ.length > 0 ? 1 : 0;
}
