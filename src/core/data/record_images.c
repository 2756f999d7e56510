// SPDX-License-Identifier: Apache-2.0
// Finds the images of a row: in its column of images, and in the parts of its messages.

#include "core/data/record_internal.h"

#include <string.h>

struct found {
    struct arena *arena;
    struct record_image *items;
    size_t count, room;
    size_t placeless; // parts that do not say where their image is
    bool other;       // video or sound is among them
};

static void add(struct found *found, enum record_image_kind kind, struct text source)
{
    found->items =
        arena_room(found->arena, found->items, sizeof *found->items, found->count, &found->room);
    found->items[found->count++] = (struct record_image){ kind, source };
}

static bool begins(struct text text, const char *with)
{
    size_t size = strlen(with);
    return text.size >= size && !memcmp(text.at, with, size);
}

static const char *find(struct text text, const char *what)
{
    size_t size = strlen(what);
    for (size_t i = 0; i + size <= text.size; i++)
        if (!memcmp(text.at + i, what, size))
            return text.at + i;
    return NULL;
}

static struct text after(struct text text, size_t size)
{
    return (struct text){ text.at + size, text.size - size };
}

// A string is an address, the bytes themselves, or a path.
static void add_string(struct found *found, struct text text)
{
    static const char *const escaped[] = { "\\x89PNG", "\\xFF\\xD8", "RIFF\\x" };
    static const char *const encoded[] = { "iVBORw0KGgo", "/9j/", "UklGR" }; // PNG, JPEG, WebP
    enum { LEAST = 40 }; // digits of a header: shorter ones are paths
    const char *comma = begins(text, "data:") ? memchr(text.at, ',', text.size) : NULL;
    if (comma) {
        add(found, RECORD_IMAGE_BASE64, after(text, (size_t)(comma + 1 - text.at)));
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        if (begins(text, escaped[i])) {
            add(found, RECORD_IMAGE_ESCAPED, text);
            return;
        }
        if (begins(text, encoded[i]) && text.size >= LEAST) {
            add(found, RECORD_IMAGE_BASE64, text);
            return;
        }
    }
    struct text start = { text.at, text.size < 16 ? text.size : 16 };
    if (begins(text, "file://"))
        add(found, RECORD_IMAGE_FILE, after(text, strlen("file://")));
    else if (find(start, "://"))
        add(found, RECORD_IMAGE_REMOTE, text);
    else
        add(found, text.size ? RECORD_IMAGE_FILE : RECORD_IMAGE_UNKNOWN, text);
}

static void add_value(struct found *found, struct template_value value, int depth);

// {"bytes", "path"} of Hugging Face's datasets, {"url"} of OpenAI, {"data"} of Gemini. Bytes come
// first: the path beside them is that of where they were.
static bool add_object(struct found *found, struct template_value object, int depth)
{
    static const char *const keys[] = {
        "bytes",     "image",  "image_url",  "url",         "path",
        "file_name", "source", "inlineData", "inline_data", "data"
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct template_value *value = template_value_find(object.dict, text_of(keys[i]));
        if (!value || value->kind == TEMPLATE_NONE)
            continue;
        add_value(found, *value, depth + 1);
        return true;
    }
    return false;
}

static void add_value(struct found *found, struct template_value value, int depth)
{
    enum { DEEPEST = 4 };
    struct template_value parsed;
    if (depth > DEEPEST || value.kind == TEMPLATE_NONE)
        return;
    struct text text = value.kind == TEMPLATE_STRING ? text_trim(value.string) : (struct text){ 0 };
    if (text.size > 1 && text.at[0] == '[' &&
        !template_value_read(&parsed, found->arena, text, "images")) // in a table
        value = parsed;
    if (value.kind == TEMPLATE_STRING)
        add_string(found, value.string);
    else if (value.kind == TEMPLATE_LIST)
        for (size_t i = 0; i < value.list->count; i++)
            add_value(found, value.list->items[i], depth + 1);
    else if (value.kind != TEMPLATE_DICT || !add_object(found, value, depth))
        add(found, RECORD_IMAGE_UNKNOWN, (struct text){ 0 });
}

static void add_part(struct found *found, struct template_value part)
{
    struct text type = part.kind == TEMPLATE_DICT ? record_part_type(part) : (struct text){ 0 };
    if (!record_is_media(type))
        return;
    if (begins(type, "video") || find(type, "audio"))
        found->other = true;
    else if (!add_object(found, part, 0))
        found->placeless++;
}

static void add_messages(struct found *found, const struct template_list *messages)
{
    for (size_t i = 0; i < messages->count; i++) {
        const struct template_value *content =
            template_value_find(messages->items[i].dict, TEXT("content"));
        bool list = content && content->kind == TEMPLATE_LIST;
        for (size_t k = 0; list && k < content->list->count; k++)
            add_part(found, content->list->items[k]);
    }
}

void record_images(struct record_sequence *out, struct arena *arena, struct text column,
                   struct template_value media)
{
    struct found found = { .arena = arena };
    bool of_images = column.at && find(column, "image");
    if (of_images)
        add_value(&found, media, 0);
    else
        found.other = template_value_truth(media);
    size_t of_column = found.count;
    if (out->kind == RECORD_CHAT && out->messages.kind == TEMPLATE_LIST)
        add_messages(&found, out->messages.list);
    for (size_t i = of_column; i < found.placeless; i++)
        add(&found, RECORD_IMAGE_UNKNOWN, (struct text){ 0 });
    out->images = found.items;
    out->image_count = found.count;
    out->has_other = found.other;
    out->has_media = found.count > 0 || found.other;
}

// --- bytes in the row --------------------------------------------------------

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

enum err record_image_size(struct image_size *out, const struct record_image *image)
{
    enum { MOST = 1 << 16 };
    static _Thread_local char bytes[MOST];
    if (image->kind == RECORD_IMAGE_BASE64)
        return image_read_base64(out, image->source);
    if (image->kind != RECORD_IMAGE_ESCAPED)
        return fail(ERR_INPUT, "the row does not hold the image");
    struct text text = image->source;
    size_t count = 0;
    for (size_t i = 0; i < text.size && count < MOST; i++) {
        bool escape = text.at[i] == '\\' && i + 3 < text.size && text.at[i + 1] == 'x' &&
                      hex(text.at[i + 2]) >= 0 && hex(text.at[i + 3]) >= 0;
        bytes[count++] =
            escape ? (char)(hex(text.at[i + 2]) << 4 | hex(text.at[i + 3])) : text.at[i];
        i += escape ? 3 : 0;
    }
    return image_read(out, (struct text){ bytes, count });
}
