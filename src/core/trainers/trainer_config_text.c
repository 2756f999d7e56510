// SPDX-License-Identifier: Apache-2.0
// Lists what was understood, ignored and contradictory in a configuration, as text and as JSON.

#include "core/trainers/trainer_facts.h"

#include <string.h>

enum { WIDTH = 78 };

static const char *dashed(struct arena *arena, const char *option)
{
    char *out = arena_copy(arena, option, strlen(option));
    for (char *c = out; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return out;
}

static void put_understood(const struct trainer_config *config,
                           const struct trainer_config_item *item, struct out *out)
{
    const char *value = item->option ? trainer_config_option(config, item->option) : NULL;
    const char *pair = text_format(config->arena, "%s = %.40s", item->key, item->value);
    out_put(out, "  %-42s ", pair);
    if (item->off)
        out_put(out, "off");
    else if (value)
        out_put(out, strchr(value, ' ') ? "--%s \"%s\"" : "--%s %s",
                dashed(config->arena, item->option), value);
    else
        out_put(out, "%s", item->remark ? item->remark : "no effect");
    if (item->beaten)
        out_put(out, ", overridden by the command line");
    else if (item->remark && value && !item->off)
        out_put(out, " (%s: %s)", item->file, item->remark);
    out_put(out, "\n");
}

static void put_ignored(const struct trainer_config *config, struct out *out)
{
    bool headed = false;
    for (size_t i = 0; i < config->item_count; i++) {
        const struct trainer_config_item *item = &config->items[i];
        if (item->effect != TRAINER_CONFIG_MATTERS)
            continue;
        if (!headed)
            out_put(out, "\n  Ignored, although it matters\n");
        headed = true;
        out_put(out, "  %-42s %s\n",
                text_format(config->arena, "%s = %.40s", item->key, item->value),
                item->remark ? item->remark : "");
    }
}

// The keys of one effect, wrapped to the width of a terminal.
static void put_keys(const struct trainer_config *config, enum trainer_config_effect effect,
                     const char *title, struct out *out)
{
    size_t column = 0;
    for (size_t i = 0; i < config->item_count; i++) {
        const struct trainer_config_item *item = &config->items[i];
        if (item->effect != effect)
            continue;
        if (!column)
            out_put(out, "\n  %s\n ", title);
        size_t size = strlen(item->key) + 1;
        if (column && column + size > WIDTH) {
            out_put(out, "\n ");
            column = 0;
        }
        out_put(out, " %s", item->key);
        column += size;
    }
    if (column)
        out_put(out, "\n");
}

const char *trainer_config_lost(const struct trainer_config *config)
{
    struct out out = { .arena = config->arena };
    int count = 0;
    for (size_t i = 0; i < config->item_count; i++) {
        const struct trainer_config_item *item = &config->items[i];
        if (item->effect != TRAINER_CONFIG_MATTERS || !strcmp(item->file, "together"))
            continue;
        if (++count <= 2)
            out_put(&out, "%s%s", count > 1 ? ", " : "", item->key);
    }
    if (count > 2)
        out_put(&out, " and %d more", count - 2);
    return count ? out_string(&out) : NULL;
}

void trainer_config_text(const struct trainer_config *config, struct out *out)
{
    out_put(out, "From");
    for (size_t i = 0; i < config->file_count; i++)
        out_put(out, "%s %s (%s)", i ? "," : "", config->files[i].name, config->files[i].trainer);
    out_put(out, "\n");
    for (size_t i = 0; i < config->item_count; i++)
        if (config->items[i].effect == TRAINER_CONFIG_UNDERSTOOD)
            put_understood(config, &config->items[i], out);
    put_ignored(config, out);
    put_keys(config, TRAINER_CONFIG_UNKNOWN, "Ignored, unknown", out);
    put_keys(config, TRAINER_CONFIG_HARMLESS, "Ignored, no influence on time or memory", out);
    for (size_t i = 0; i < config->contradiction_count; i++)
        out_put(out, "%s  %s\n", i ? "" : "\n  Contradictions\n", config->contradictions[i]);
}

static void put_item(struct json_writer *w, const struct trainer_config *config,
                     const struct trainer_config_item *item)
{
    json_open(w, NULL, '{');
    json_put_string(w, "file", item->file);
    json_put_string(w, "key", item->key);
    json_put_string(w, "value", item->value);
    if (item->effect == TRAINER_CONFIG_UNDERSTOOD) {
        json_put_string(w, "option", item->option);
        json_put_string(w, "becomes",
                        item->option && !item->off ? trainer_config_option(config, item->option)
                                                   : NULL);
        json_put_bool(w, "beaten", item->beaten);
    } else {
        json_put_string(w, "effect", trainer_config_effects[item->effect]);
    }
    json_put_string(w, "remark", item->remark);
    json_close(w, '}');
}

void trainer_config_write(const struct trainer_config *config, struct json_writer *w)
{
    json_open(w, "from", '{');
    json_open(w, "files", '[');
    for (size_t i = 0; i < config->file_count; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", config->files[i].name);
        json_put_string(w, "trainer", config->files[i].trainer);
        json_close(w, '}');
    }
    json_close(w, ']');
    for (int ignored = 0; ignored < 2; ignored++) {
        json_open(w, ignored ? "ignored" : "understood", '[');
        for (size_t i = 0; i < config->item_count; i++)
            if ((config->items[i].effect != TRAINER_CONFIG_UNDERSTOOD) == ignored)
                put_item(w, config, &config->items[i]);
        json_close(w, ']');
    }
    json_open(w, "contradictions", '[');
    for (size_t i = 0; i < config->contradiction_count; i++)
        json_put_string(w, NULL, config->contradictions[i]);
    json_close(w, ']');
    json_close(w, '}');
}
