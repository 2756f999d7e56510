// SPDX-License-Identifier: Apache-2.0
// Splits names into words and matches them; suggests names in errors.

#include "base/name.h"

#include <string.h>

enum { MOST_WORDS = 24, LONGEST = 120 };

// The words of a name, in lower case and in order.
struct words {
    char text[LONGEST];
    size_t size;
    struct text word[MOST_WORDS];
    size_t count;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool belongs(struct text name, size_t i)
{
    char c = lower(name.at[i]);
    bool point =
        c == '.' && i && i + 1 < name.size && is_digit(name.at[i - 1]) && is_digit(name.at[i + 1]);
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c & 0x80) || point;
}

static bool is_number(struct text word)
{
    for (size_t i = 0; i < word.size; i++)
        if (!is_digit(word.at[i]) && word.at[i] != '.')
            return false;
    return word.size > 0;
}

static void split(struct words *out, struct text name)
{
    out->size = out->count = 0;
    for (size_t i = 0; i < name.size && out->count < MOST_WORDS;) {
        if (!belongs(name, i)) {
            i++;
            continue;
        }
        struct text word = { out->text + out->size, 0 };
        for (; i < name.size && belongs(name, i) && out->size < LONGEST; i++, word.size++)
            out->text[out->size++] = lower(name.at[i]);
        struct text *last = out->count ? &out->word[out->count - 1] : NULL;
        if (last && is_number(*last) && (text_is(word, "gb") || text_is(word, "gib")))
            last->size += word.size; // they are adjacent in memory
        else if (word.size)
            out->word[out->count++] = word;
        else
            break; // full
    }
}

static bool is_among(struct text word, const char *const *list)
{
    for (; list && *list; list++)
        if (text_is(word, *list))
            return true;
    return false;
}

// Removes noise words, unless there are no others.
static void drop_noise(struct words *words, const char *const *noise)
{
    size_t kept = 0, size = 0;
    for (size_t i = 0; i < words->count; i++)
        kept += !is_among(words->word[i], noise);
    if (!kept)
        return;
    kept = 0;
    for (size_t i = 0; i < words->count; i++) {
        struct text word = words->word[i];
        if (is_among(word, noise))
            continue;
        memmove(words->text + size, word.at, word.size);
        words->word[kept++] = (struct text){ words->text + size, word.size };
        size += word.size;
    }
    words->count = kept;
    words->size = size;
}

static bool is_same(const struct words *a, const struct words *b)
{
    return a->size == b->size && !memcmp(a->text, b->text, a->size);
}

static bool has(const struct words *words, struct text word)
{
    for (size_t i = 0; i < words->count; i++)
        if (text_equal(words->word[i], word))
            return true;
    return false;
}

static bool holds(const struct words *query, const struct words *entry, const char *const *strict)
{
    for (size_t i = 0; i < entry->count; i++)
        if (!has(query, entry->word[i]))
            return false;
    for (size_t i = 0; i < query->count; i++)
        if (is_among(query->word[i], strict) && !has(entry, query->word[i]))
            return false;
    return entry->count > 0;
}

void name_add(struct name_list *list, const char *name, const char *aliases, int row)
{
    struct text rest = text_of(aliases ? aliases : ""), alias = text_of(name);
    do {
        list->entries =
            arena_room(list->arena, list->entries, sizeof *list->entries, list->count, &list->room);
        if (text_trim(alias).size)
            list->entries[list->count++] =
                (struct name_entry){ text_copy(list->arena, text_trim(alias)), row };
    } while (text_next(&rest, '|', &alias));
}

int name_find_exact(const struct name_list *list, struct text query)
{
    struct words wanted, entry;
    split(&wanted, query);
    for (size_t i = 0; i < list->count; i++) {
        split(&entry, text_of(list->entries[i].text));
        if (is_same(&wanted, &entry))
            return list->entries[i].row;
    }
    return -1;
}

int name_find(const struct name_list *list, struct text query)
{
    int exact = name_find_exact(list, query), best = -1;
    if (exact >= 0)
        return exact;
    struct words wanted, entry;
    size_t best_count = 0;
    split(&wanted, query);
    drop_noise(&wanted, list->noise);
    for (size_t i = 0; i < list->count; i++) {
        split(&entry, text_of(list->entries[i].text));
        drop_noise(&entry, list->noise);
        if (is_same(&wanted, &entry))
            return list->entries[i].row;
        if (list->extras && entry.count > best_count && holds(&wanted, &entry, list->strict)) {
            best = list->entries[i].row;
            best_count = entry.count;
        }
    }
    return best;
}

// Words cut where letters and digits meet: "rtx6000" is of those of "rtx-pro-6000-ws".
static void cut(struct words *words)
{
    struct words whole = *words;
    words->count = 0;
    for (size_t i = 0, at = 0; i < whole.count; at += whole.word[i++].size)
        for (size_t k = 0; k < whole.word[i].size; k++) {
            const char *c = words->text + at + k;
            if (!k || (is_number((struct text){ c, 1 }) != is_number((struct text){ c - 1, 1 }) &&
                       words->count < MOST_WORDS))
                words->word[words->count++] = (struct text){ c, 0 };
            words->word[words->count - 1].size++;
        }
}

enum err name_unknown(const struct name_list *list, struct text query, const char *kind,
                      const char *table)
{
    struct words wanted, parts, entry;
    struct out begun = { .arena = list->arena };
    const char **names = ARENA_NEW(list->arena, const char *, list->count + 1);
    int found = 0, last_row = -1;
    split(&wanted, query);
    drop_noise(&wanted, list->noise);
    split(&parts, (struct text){ wanted.text, wanted.size });
    cut(&parts);
    for (size_t i = 0; i < list->count; i++) {
        names[i] = list->entries[i].text;
        split(&entry, text_of(names[i]));
        bool longer = wanted.size >= 2 && entry.size > wanted.size,
             starts = longer && !memcmp(entry.text, wanted.text, wanted.size),
             has_all = longer && ((wanted.count > 1 && holds(&entry, &wanted, NULL)) ||
                                  (parts.count > 1 && holds(&entry, &parts, NULL)));
        if (list->entries[i].row == last_row || (!starts && !has_all))
            continue;
        last_row = list->entries[i].row;
        if (++found <= 4)
            out_put(&begun, "%s%s", found > 1 ? ", " : "", names[i]);
    }
    if (found)
        return fail(ERR_USAGE, "there is no %s \"%.*s\"; did you mean %s%s?", kind,
                    TEXT_ARGS(query), out_string(&begun), found > 4 ? ", …" : "");
    const char *near = text_nearest(query, names, list->count);
    if (near)
        return fail(ERR_USAGE, "there is no %s \"%.*s\"; did you mean %s?", kind, TEXT_ARGS(query),
                    near);
    return fail(ERR_USAGE, "there is no %s \"%.*s\"; gpuhours show %s lists them", kind,
                TEXT_ARGS(query), table);
}
