// SPDX-License-Identifier: Apache-2.0
// Counts the tokens of an image by the rule of a model's family, one function per rule. The figures
// are rows of data/vision.csv; sizes and roundings are those of the families' own processors.

#include "core/vision/vision.h"

#include "base/embedded.h"

#include <math.h>
#include <string.h>

static const char *const rules[] = { "fixed",  "native", "longest", "ratio",
                                     "canvas", "anyres", "split",   NULL };

const struct field vision_fields[] = {
    FIELD_NEEDED(vision, name, TEXT, "family"),
    FIELD(vision, types, TEXT, "model_type of config.json, separated by spaces"),
    FIELD(vision, placeholder, TEXT, "what a chat template writes for an image"),
    FIELD_OF(vision, rule, rules, "how pixels become tokens", .required = true),
    FIELD(vision, side, COUNT, "side of the image or of a tile, in pixels"),
    FIELD_NEEDED(vision, patch, COUNT, "side of a patch, in pixels"),
    FIELD_NEEDED(vision, merge, COUNT, "side of a token, in patches"),
    FIELD(vision, min_pixels, COUNT, "fewest pixels after resizing"),
    FIELD(vision, max_pixels, COUNT, "most pixels after resizing"),
    FIELD(vision, longest, COUNT, "longest side after resizing, in pixels"),
    FIELD(vision, most_tiles, COUNT, "most tiles of an image"),
    FIELD(vision, grids, TEXT, "grids of tiles, rows x columns, separated by spaces"),
    FIELD(vision, shrink_tiles, COUNT, "tiles whose tokens are not exceeded"),
    FIELD(vision, markers, COUNT, "further tokens of each image"),
    FIELD(vision, row_markers, COUNT, "further tokens of each row"),
    FIELD(vision, tile_markers, COUNT, "further tokens of each of several tiles"),
    FIELD(vision, overview, FLAG, "several tiles are followed by the whole image in one"),
    FIELD(vision, cross_every, COUNT, "one layer of the decoder in so many attends to images"),
    FIELD(vision, apart, FLAG, "the decoder is also trained by itself"),
    FIELD_NEEDED(vision, layers, COUNT, "layers of the encoder"),
    FIELD_NEEDED(vision, width, COUNT, "width of the encoder"),
    FIELD_NEEDED(vision, heads, COUNT, "heads of the encoder"),
    FIELD_NEEDED(vision, ffn_width, COUNT, "width of its feed-forward network"),
    FIELD(vision, class_tokens, COUNT, "tokens per tile besides the patches"),
    FIELD(vision, gated, FLAG, "its feed-forward network is gated"),
    FIELD(vision, rotary, FLAG, "rotary positions"),
    FIELD(vision, window, COUNT, "side of an attention window, in patches"),
    FIELD(vision, full_layers, COUNT, "layers without a window, where others have one"),
    FIELD(vision, encoded_tiles, COUNT, "tiles that are computed, empty ones included"),
    FIELD(vision, unnamed_embedding, FLAG,
          "transformers asks for no gradients of its patches under recomputation"),
    FIELD_NEEDED(vision, projector_in, COUNT, "width that enters the projector"),
    FIELD(vision, projector_width, COUNT, "width between its two linears; 0: one linear"),
    FIELD(vision, projector_as_decoder, FLAG, "that width is the decoder's"),
    FIELD(vision, projectors, COUNT, "projectors of that shape"),
    FIELD_NEEDED(vision, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(vision, as_of, DATE, "date of the figures"),
    FIELD(vision, note, TEXT, "remark"),
    { 0 },
};

const struct field vision_load_fields[] = {
    FIELD(vision_load, images, NUMBER, "images"),
    FIELD(vision_load, tokens, NUMBER, "their tokens in the rows, markers included"),
    FIELD(vision_load, patches, NUMBER, "patches that the encoder computes"),
    FIELD(vision_load, squares, NUMBER, "squared patches of what attends to itself, summed"),
    FIELD(vision_load, in_window, NUMBER, "the same within the encoder's windows"),
    FIELD(vision_load, projected, NUMBER, "tokens that leave the projector"),
    { 0 },
};

// --- grids of tiles ----------------------------------------------------------

struct grid {
    int64_t rows, columns;
};

// Of all grids up to most_tiles, by ascending number of tiles and then ascending columns, the one
// with the nearest ratio of sides; at equal distance the larger, unless its tiles have more than
// twice the image's area.
static struct grid nearest_ratio(const struct vision *v, const struct image_size *size)
{
    struct grid best = { 1, 1 };
    double ratio = (double)size->width / (double)size->height, least = INFINITY;
    double area = (double)size->width * (double)size->height, tile = (double)(v->side * v->side);
    for (int64_t tiles = 1; tiles <= v->most_tiles; tiles++)
        for (int64_t columns = 1; columns <= tiles; columns++) {
            struct grid grid = { tiles / columns, columns };
            if (tiles % columns)
                continue;
            double off = fabs(ratio - (double)grid.columns / (double)grid.rows);
            if (off < least || (off == least && area > 0.5 * tile * (double)tiles))
                best = grid;
            least = fmin(least, off);
        }
    return best;
}

// Of all grids up to most_tiles, the one that needs the least enlarging of the image; if none holds
// it, the one that needs the least shrinking. At equal scale, the one with the fewest tiles.
static struct grid least_scaling(const struct vision *v, const struct image_size *size)
{
    struct grid best = { 1, 1 };
    double chosen = 0;
    for (int64_t tiles = 1; tiles <= v->most_tiles; tiles++)
        for (int64_t rows = 1; rows <= tiles; rows++) {
            if (tiles % rows)
                continue;
            struct grid grid = { rows, tiles / rows };
            double scale = fmin((double)(grid.columns * v->side) / (double)size->width,
                                (double)(grid.rows * v->side) / (double)size->height);
            bool better = chosen < 1 ? scale > chosen : scale >= 1 && scale < chosen;
            if (!better)
                continue;
            best = grid;
            chosen = scale;
        }
    return best;
}

// Of the listed grids, the one that keeps most pixels of the image, then the smallest.
static struct grid most_pixels(const struct vision *v, const struct image_size *size)
{
    struct grid best = { 1, 1 };
    double most = 0, wasted = INFINITY, width = (double)size->width, height = (double)size->height;
    for (const char *at = v->grids; *at;) {
        int rows = *at - '0', columns = at[2] - '0'; // vision_check() has seen the form
        double full_width = (double)(columns * v->side), full_height = (double)(rows * v->side);
        double scale = fmin(full_width / width, full_height / height);
        double kept = fmin(floor(width * scale) * floor(height * scale), width * height);
        double rest = full_width * full_height - kept;
        if (kept > most || (kept == most && rest < wasted)) {
            best = (struct grid){ rows, columns };
            most = kept;
            wasted = rest;
        }
        at += at[3] ? 4 : 3;
    }
    return best;
}

// --- rules -------------------------------------------------------------------

static int64_t square(int64_t side)
{
    return side * side;
}

// What all rules with tiles share. `tiles` of them are encoded; each gives as many tokens.
static void count_tiles(struct vision_image *out, const struct vision *v, int64_t tiles)
{
    int64_t encoded = tiles > v->encoded_tiles ? tiles : v->encoded_tiles;
    int64_t each = square(v->side / v->patch) + v->class_tokens;
    out->patches = encoded * each;
    out->squares = (double)encoded * (double)square(each);
    out->projected = encoded * square(v->side / v->patch / v->merge);
    if (!v->cross_every)
        return;
    out->squares *= (double)encoded; // all tiles of an image attend to each other
    out->projected = out->patches;
}

static void count_grid(struct vision_image *out, const struct vision *v, struct grid grid)
{
    int64_t tiles = grid.rows * grid.columns, each = square(v->side / v->patch / v->merge);
    bool several = tiles > 1;
    int64_t all = tiles + (several && v->overview);
    count_tiles(out, v, all);
    out->tokens = v->markers + all * each;
    if (several)
        out->tokens += tiles * v->tile_markers + grid.rows * v->row_markers;
    if (v->cross_every)
        out->tokens = v->markers;
}

// A grid of patches of one image that is encoded as a whole.
static void count_patches(struct vision_image *out, const struct vision *v, int64_t rows,
                          int64_t columns)
{
    out->projected = rows * columns;
    out->patches = rows * columns * square(v->merge);
    out->squares = (double)out->patches * (double)out->patches;
    out->tokens = v->markers + rows * columns + rows * v->row_markers;
}

static enum err measure_native(struct vision_image *out, const struct vision *v,
                               const struct image_size *size)
{
    double width = (double)size->width, height = (double)size->height;
    double unit = (double)(v->patch * v->merge), longest = fmax(width, height);
    if (longest > 200 * fmin(width, height))
        return fail(ERR_INPUT,
                    "an image of %lld × %lld pixels: the processor of %s refuses one that is more "
                    "than 200 times as long as wide",
                    (long long)size->width, (long long)size->height, v->name);
    double rows = rint(height / unit), columns = rint(width / unit);
    double pixels = rows * columns * unit * unit;
    if (pixels > (double)v->max_pixels) {
        double shrink = sqrt(height * width / (double)v->max_pixels);
        rows = fmax(1, floor(height / shrink / unit));
        columns = fmax(1, floor(width / shrink / unit));
    } else if (pixels < (double)v->min_pixels) {
        double enlarge = sqrt((double)v->min_pixels / (height * width));
        rows = ceil(height * enlarge / unit);
        columns = ceil(width * enlarge / unit);
    }
    count_patches(out, v, (int64_t)rows, (int64_t)columns);
    return OK;
}

static void measure_longest(struct vision_image *out, const struct vision *v,
                            const struct image_size *size)
{
    double unit = (double)(v->patch * v->merge);
    double width = (double)size->width, height = (double)size->height;
    double ratio = fmax(width, height) / (double)v->longest;
    if (ratio > 1) {
        width = fmax(1, floor(width / ratio));
        height = fmax(1, floor(height / ratio));
    }
    count_patches(out, v, (int64_t)ceil(height / unit), (int64_t)ceil(width / unit));
}

// Python's int(round(x, 7)).
static int64_t whole(double value)
{
    return (int64_t)floor(value + 5e-8);
}

static void measure_anyres(struct vision_image *out, const struct vision *v,
                           const struct image_size *size)
{
    struct grid grid = most_pixels(v, size);
    int64_t each = v->side / v->patch, rows = grid.rows * each, columns = grid.columns * each;
    double width = (double)size->width, height = (double)size->height;
    if (width / height > (double)columns / (double)rows)
        rows -= (rows - whole(height * ((double)columns / width))) / 2 * 2;
    else
        columns -= (columns - whole(width * ((double)rows / height))) / 2 * 2;
    double most = (double)(v->shrink_tiles * square(each));
    double shrink = most > 0 ? sqrt((double)(rows * columns) / most) : 0;
    if (shrink > 1.1) {
        rows = (int64_t)floor((double)rows / shrink);
        columns = (int64_t)floor((double)columns / shrink);
    }
    count_tiles(out, v, grid.rows * grid.columns + 1);
    out->tokens = v->markers + rows * columns + rows * v->row_markers + square(each);
}

// Python's int(a / b) of sizes, then the next multiple of the tile.
static void measure_split(struct vision_image *out, const struct vision *v,
                          const struct image_size *size)
{
    double ratio = (double)size->width / (double)size->height, longest = (double)v->longest;
    bool is_wide = size->width >= size->height;
    double shorter = floor(is_wide ? longest / ratio : longest * ratio);
    shorter = fmax(1, shorter + fmod(shorter, 2)); // even
    double tile = (double)v->side, tiles = ceil(longest / tile);
    double resized = is_wide ? longest / shorter : shorter / longest;
    double across = floor(is_wide ? tiles * tile / resized : tiles * tile * resized);
    int64_t along = (int64_t)tiles, beside = (int64_t)fmax(1, ceil(across / tile));
    count_grid(out, v, is_wide ? (struct grid){ beside, along } : (struct grid){ along, beside });
}

enum err vision_measure(struct vision_image *out, const struct vision *vision,
                        const struct image_size *size)
{
    *out = (struct vision_image){ 0 };
    TRY(image_check(size));
    switch (vision->rule) {
    case VISION_FIXED: count_grid(out, vision, (struct grid){ 1, 1 }); break;
    case VISION_NATIVE: TRY(measure_native(out, vision, size)); break;
    case VISION_LONGEST: measure_longest(out, vision, size); break;
    case VISION_RATIO: count_grid(out, vision, nearest_ratio(vision, size)); break;
    case VISION_CANVAS: count_grid(out, vision, least_scaling(vision, size)); break;
    case VISION_ANYRES: measure_anyres(out, vision, size); break;
    default: measure_split(out, vision, size);
    }
    double window = (double)square(vision->window);
    out->in_window = window > 0 ? fmin(out->squares, (double)out->patches * window) : out->squares;
    return OK;
}

void vision_load_add(struct vision_load *load, const struct vision_image *image)
{
    load->images += 1;
    load->tokens += (double)image->tokens;
    load->patches += (double)image->patches;
    load->squares += image->squares;
    load->in_window += image->in_window;
    load->projected += (double)image->projected;
}

struct vision_load vision_load_sum(const struct vision_load *a, const struct vision_load *b)
{
    return (struct vision_load){ .images = a->images + b->images,
                                 .tokens = a->tokens + b->tokens,
                                 .patches = a->patches + b->patches,
                                 .squares = a->squares + b->squares,
                                 .in_window = a->in_window + b->in_window,
                                 .projected = a->projected + b->projected };
}

struct vision_load vision_load_scaled(const struct vision_load *load, double factor)
{
    return (struct vision_load){ .images = load->images * factor,
                                 .tokens = load->tokens * factor,
                                 .patches = load->patches * factor,
                                 .squares = load->squares * factor,
                                 .in_window = load->in_window * factor,
                                 .projected = load->projected * factor };
}

struct image_size vision_shrunk(const struct image_size *size, int64_t max_pixels)
{
    double pixels = (double)size->width * (double)size->height;
    if (max_pixels <= 0 || pixels <= (double)max_pixels)
        return *size;
    double factor = sqrt((double)max_pixels / pixels);
    return (struct image_size){ (int64_t)fmax(1, floor((double)size->width * factor)),
                                (int64_t)fmax(1, floor((double)size->height * factor)) };
}

bool vision_ignores_size(const struct vision *vision)
{
    return vision->rule == VISION_FIXED || vision->cross_every > 0;
}

// --- shapes ------------------------------------------------------------------

double vision_encoder_weights(const struct vision *v)
{
    double width = (double)v->width, ffn = (double)v->ffn_width;
    double layer = 4 * width * width + (v->gated ? 3 : 2) * width * ffn;
    return (double)v->layers * layer + 3 * (double)square(v->patch) * width;
}

double vision_projector_width(const struct vision *v, double decoder_width)
{
    return v->projector_as_decoder ? decoder_width : (double)v->projector_width;
}

double vision_projector_weights(const struct vision *v, double decoder_width)
{
    double in = (double)v->projector_in, width = vision_projector_width(v, decoder_width);
    double each = width > 0 ? in * width + width * decoder_width : in * decoder_width;
    return (double)(v->projectors ? v->projectors : 1) * each;
}

static bool are_grids(const char *at)
{
    for (;; at += 4) {
        if (at[0] < '1' || at[0] > '9' || at[1] != 'x' || at[2] < '1' || at[2] > '9')
            return false;
        if (!at[3])
            return true;
        if (at[3] != ' ')
            return false;
    }
}

enum err vision_check(const struct vision *v, const char *name)
{
    const int64_t sizes[] = { v->patch, v->merge,     v->layers,      v->width,
                              v->heads, v->ffn_width, v->projector_in };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > 1 << 20)
            return fail(ERR_INPUT, "%s: a size of its encoder of images is %lld", name,
                        (long long)sizes[i]);
    bool has_side = v->rule != VISION_NATIVE && v->rule != VISION_LONGEST;
    if (has_side && (v->side < v->patch * v->merge || v->side > IMAGE_LONGEST))
        return fail(ERR_INPUT, "%s: side is %lld, must be at least a token's", name,
                    (long long)v->side);
    bool has_longest = v->rule == VISION_LONGEST || v->rule == VISION_SPLIT;
    if (has_longest && (v->longest < 1 || v->longest > IMAGE_LONGEST))
        return fail(ERR_INPUT, "%s: longest is %lld", name, (long long)v->longest);
    if (v->rule == VISION_NATIVE && (v->min_pixels < 1 || v->max_pixels < v->min_pixels))
        return fail(ERR_INPUT, "%s: min_pixels and max_pixels are out of order", name);
    bool has_tiles = v->rule == VISION_RATIO || v->rule == VISION_CANVAS;
    if (has_tiles && (v->most_tiles < 1 || v->most_tiles > 1024))
        return fail(ERR_INPUT, "%s: most_tiles is %lld, must be 1 to 1024", name,
                    (long long)v->most_tiles);
    if (v->rule == VISION_ANYRES && (!v->grids || !are_grids(v->grids)))
        return fail(ERR_INPUT, "%s: grids must be like \"1x2 2x1\"", name);
    return OK;
}

// --- the table ---------------------------------------------------------------

// Whether a word is among those of a list separated by spaces.
static bool lists(const char *list, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == size && !memcmp(at, word, size))
            return true;
    return false;
}

enum err vision_table(struct vision **rows, size_t *count, struct arena *arena)
{
    TRY(field_read_csv(vision_fields, sizeof **rows, (void **)rows, count, arena,
                       embedded_file("vision.csv"), "vision.csv"));
    for (size_t i = 0; i < *count; i++)
        TRY(vision_check(&(*rows)[i], (*rows)[i].name));
    return OK;
}

enum err vision_find(const struct vision **out, struct arena *arena, const char *name)
{
    struct vision *rows;
    size_t count;
    *out = NULL;
    TRY(vision_table(&rows, &count, arena));
    for (size_t i = 0; i < count && !*out; i++)
        if (!strcmp(rows[i].name, name) || lists(rows[i].types, name))
            *out = &rows[i];
    return OK;
}
