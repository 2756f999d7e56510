// SPDX-License-Identifier: Apache-2.0
// vision: how models read images: tokens by each family's rule, and the shape of their encoder.
//
//     const struct vision *vision;
//     TRY(vision_find(&vision, arena, "qwen2.5-vl"));
//     struct vision_image image;
//     TRY(vision_measure(&image, vision, &size));      // image.tokens of the decoder's sequence
//
// A family is a row of data/vision.csv: which of the rules below makes tokens of pixels, with its
// figures, and the encoder and projector that compute them. The rules, letters in
// docs/formulas.md, section vision:
//
//     fixed    every image is resized to side × side
//     native   sides become multiples of patch · merge, pixels between min_pixels and max_pixels
//     longest  shrunk to a longest side, then cut into patches; a marker ends each row
//     ratio    the grid of tiles whose ratio of sides is nearest (InternVL)
//     canvas   the grid of tiles that holds the image with the least scaling (Llama)
//     anyres   one of the listed grids, without the padding's rows or columns (LLaVA-NeXT)
//     split    enlarged to a longest side, then cut into tiles (SmolVLM)

#pragma once

#include "base/field.h"
#include "core/vision/image.h"

enum vision_rule {
    VISION_FIXED,
    VISION_NATIVE,
    VISION_LONGEST,
    VISION_RATIO,
    VISION_CANVAS,
    VISION_ANYRES,
    VISION_SPLIT,
};

struct vision {
    const char *name;        // "qwen2.5-vl"
    const char *types;       // model_type of config.json, separated by spaces
    const char *placeholder; // what a chat template writes where an image stands
    int rule;                // enum vision_rule
    int64_t side;            // of the image, or of a tile, in pixels
    int64_t patch, merge;    // pixels of a patch's side; patches of a token's side
    int64_t min_pixels, max_pixels, longest, most_tiles;
    const char *grids;    // of anyres: rows x columns of tiles
    int64_t shrink_tiles; // of anyres: more tokens than so many tiles are shrunk to as many
    // Tokens of the sequence besides those of patches: of each image; of each row of tokens
    // (longest, anyres) or of tiles; of each tile, where there are several.
    int64_t markers, row_markers, tile_markers;
    bool overview; // several tiles are followed by the whole image in one
    // One layer of the decoder in so many attends to the image, and the sequence holds one token of
    // it; 0: none does.
    int64_t cross_every;
    bool apart; // the decoder is trained by itself too: encoders are loaded for images alone
    // The encoder: a transformer over patches, class_tokens more per tile.
    int64_t layers, width, heads, ffn_width, class_tokens;
    bool gated, rotary;          // positions are turned into queries and keys, in fp32
    int64_t window, full_layers; // patches of a window's side; layers that have none
    int64_t encoded_tiles;       // empty tiles are computed up to this number
    // transformers does not name its embedding of patches, and so asks for no gradients of it.
    bool unnamed_embedding;
    // The projector: one linear to the decoder's width, or two, with a width between them.
    int64_t projector_in, projector_width;
    bool projector_as_decoder; // that width is the decoder's
    int64_t projectors;        // of that shape; 0 is 1
    const char *source, *as_of, *note;
};

extern const struct field vision_fields[]; // columns of vision.csv

// What one image costs.
struct vision_image {
    int64_t tokens;    // of the decoder's sequence, markers included
    int64_t patches;   // that the encoder computes, class tokens included
    double squares;    // Σ n² over what attends to itself in a layer without windows
    double in_window;  // the same in a layer with windows
    int64_t projected; // tokens that leave the projector
};

// What many images cost together.
struct vision_load {
    double images, tokens, patches, squares, in_window, projected;
};

extern const struct field vision_load_fields[]; // keys of JSON

void vision_load_add(struct vision_load *load, const struct vision_image *image);
struct vision_load vision_load_sum(const struct vision_load *a, const struct vision_load *b);
struct vision_load vision_load_scaled(const struct vision_load *load, double factor);

// By the family's name, or a model_type of a config.json. NULL: none.
enum err vision_find(const struct vision **out, struct arena *arena, const char *name);

// All rows of vision.csv.
enum err vision_table(struct vision **rows, size_t *count, struct arena *arena);

// The family and encoder of a config.json, by its model_type and vision_config. NULL: it has none,
// or its rule is not known.
enum err vision_read_config(const struct vision **out, struct arena *arena, const struct json *file,
                            const char *name);

// The family with the settings of a preprocessor_config.json or processor_config.json: limits of
// pixels, sides, tiles, grids.
enum err vision_read_processor(const struct vision **vision, struct arena *arena, struct text json,
                               const char *name);

// ERR_INPUT for a size that the family's own processor refuses.
enum err vision_measure(struct vision_image *out, const struct vision *vision,
                        const struct image_size *size);

// The width between the projector's two linears, for a decoder of that width; 0: there is one.
double vision_projector_width(const struct vision *vision, double decoder_width);

// The size of an image of more pixels after a trainer has shrunk it to so many; 0: it does not.
struct image_size vision_shrunk(const struct image_size *size, int64_t max_pixels);

// Whether every image costs the same.
bool vision_ignores_size(const struct vision *vision);

// Weights of encoder and projectors.
double vision_encoder_weights(const struct vision *vision);
double vision_projector_weights(const struct vision *vision, double decoder_width);

// ERR_INPUT with a sentence for shapes that no encoder has.
enum err vision_check(const struct vision *vision, const char *name);
