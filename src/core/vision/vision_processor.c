// SPDX-License-Identifier: Apache-2.0
// Reads the settings of a model's own image processor: preprocessor_config.json, or the part
// image_processor of a newer processor_config.json. What such a file sets replaces the family's
// figures of data/vision.csv.

#include "core/vision/vision.h"

#include "base/text.h"

#include <string.h>

enum { MOST = 1 << 28 }; // of pixels; longer sides are refused by vision_check()

#define AT(field) offsetof(struct vision, field)
#define RULE(rule) (1u << (rule))

// A setting and where processors keep it; the first that is there counts. Parts of a path are
// separated by a point; a size may be one number or have a height.
static const struct {
    unsigned rules;
    size_t offset;
    const char *paths[5];
} settings[] = {
    { RULE(VISION_NATIVE), AT(min_pixels), { "min_pixels", "size.shortest_edge" } },
    { RULE(VISION_NATIVE), AT(max_pixels), { "max_pixels", "size.longest_edge" } },
    { RULE(VISION_NATIVE), AT(merge), { "merge_size" } },
    { RULE(VISION_NATIVE) | RULE(VISION_LONGEST),
      AT(patch),
      { "patch_size.height", "patch_size" } },
    { RULE(VISION_LONGEST), AT(longest), { "size.longest_edge" } },
    { RULE(VISION_SPLIT), AT(longest), { "size.longest_edge" } },
    { RULE(VISION_SPLIT), AT(side), { "max_image_size.longest_edge" } },
    { RULE(VISION_FIXED) | RULE(VISION_ANYRES) | RULE(VISION_RATIO),
      AT(side),
      { "crop_size.height", "crop_size", "size.height", "size.shortest_edge", "size" } },
    { RULE(VISION_CANVAS), AT(side), { "size.height" } },
    { RULE(VISION_CANVAS), AT(most_tiles), { "max_image_tiles", "max_patches" } },
    { RULE(VISION_RATIO), AT(most_tiles), { "max_patches", "max_dynamic_patch" } },
};

static const struct json *find(const struct json *file, const char *path)
{
    const char *point = strchr(path, '.');
    if (!point)
        return json_get(file, path);
    char part[32];
    size_t size = (size_t)(point - path);
    memcpy(part, path, size);
    part[size] = 0;
    const struct json *inner = json_get(file, part);
    return inner && inner->kind == JSON_OBJECT ? json_get(inner, point + 1) : NULL;
}

static enum err read_setting(struct vision *out, const struct json *file, size_t row,
                             const char *name)
{
    for (int i = 0; i < 5 && settings[row].paths[i]; i++) {
        const char *path = settings[row].paths[i];
        const struct json *value = find(file, path);
        if (!value || value->kind != JSON_NUMBER)
            continue;
        if (!(value->number >= 1 && value->number <= MOST))
            return fail(ERR_INPUT, "%s: %s is %g, must be 1 to %d", name, path, value->number,
                        MOST);
        *(int64_t *)((char *)out + settings[row].offset) = (int64_t)value->number;
        return OK;
    }
    return OK;
}

// Lists of heights and widths in pixels become rows and columns of tiles.
static enum err read_grids(struct vision *out, struct arena *arena, const struct json *file,
                           const char *name)
{
    const struct json *list = json_get(file, "image_grid_pinpoints");
    if (out->rule != VISION_ANYRES || !list || list->kind != JSON_ARRAY)
        return OK;
    struct out text = { .arena = arena };
    for (size_t i = 0; i < list->count; i++) {
        const struct json *pair = &list->items[i];
        bool is_pair = pair->kind == JSON_ARRAY && pair->count == 2 &&
                       pair->items[0].kind == JSON_NUMBER && pair->items[1].kind == JSON_NUMBER;
        double rows = is_pair ? pair->items[0].number / (double)out->side : 0;
        double columns = is_pair ? pair->items[1].number / (double)out->side : 0;
        if (!(rows >= 1 && rows < 10 && columns >= 1 && columns < 10))
            return fail(ERR_INPUT,
                        "%s: image_grid_pinpoints must be pairs of 1 to 9 times the tile's side "
                        "of %lld pixels",
                        name, (long long)out->side);
        out_put(&text, "%s%dx%d", i ? " " : "", (int)rows, (int)columns);
    }
    if (list->count)
        out->grids = out_string(&text);
    return OK;
}

enum err vision_read_processor(const struct vision **vision, struct arena *arena, struct text json,
                               const char *name)
{
    struct json tree;
    TRY(json_read(&tree, arena, json, name));
    const struct json *file = &tree, *inner = json_get(&tree, "image_processor");
    if (tree.kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is %s, must be an object", name, json_kind_name(tree.kind));
    if (inner && inner->kind == JSON_OBJECT)
        file = inner;
    struct vision *own = ARENA_NEW(arena, struct vision, 1);
    *own = **vision;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (settings[i].rules & RULE(own->rule))
            TRY(read_setting(own, file, i, name));
    TRY(read_grids(own, arena, file, name));
    if (json_get_bool(file, "do_pan_and_scan", false))
        return fail(ERR_INPUT,
                    "%s: do_pan_and_scan cuts images into crops, which is not counted; set it "
                    "to false, or give --image-size of the crops",
                    name);
    if (own->rule == VISION_SPLIT && !json_get_bool(file, "do_image_splitting", true))
        own->rule = VISION_FIXED; // one tile
    *vision = own;
    return vision_check(own, name);
}
