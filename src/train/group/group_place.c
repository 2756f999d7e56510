// SPDX-License-Identifier: Apache-2.0
// Reads rank, size and the address of rank 0 from the variables of the launcher that is there.

#include "train/group/group_place.h"

#include "base/text.h"
#include "host/launcher.h"

#include <stdlib.h>
#include <string.h>

struct reading {
    struct arena *arena;
    char *(*variable)(const char *name);
};

static const char *value_of(const struct reading *in, const char *name)
{
    const char *value = name ? in->variable(name) : NULL;
    return value && *value ? value : NULL;
}

// A whole number, of which Slurm's lists may follow: "2(x3),1" is 2.
static enum err number_of(int *out, const struct reading *in, const char *name, int least, int most)
{
    const char *value = value_of(in, name);
    if (!value)
        return OK;
    char *end;
    long number = strtol(value, &end, 10);
    if (end == value || (*end && *end != '(' && *end != ',') || number < least || number > most)
        return fail(ERR_USAGE, "the environment variable %s is \"%.40s\"; it must be from %d to %d",
                    name, value, least, most);
    *out = (int)number;
    return OK;
}

const char *group_place_first_host(struct arena *arena, const char *list)
{
    size_t stem = strcspn(list, "[,\n ");
    if (list[stem] != '[')
        return arena_copy(arena, list, stem);
    const char *digits = list + stem + 1;
    size_t close = strcspn(digits, "]");
    const char *after = digits[close] ? digits + close + 1 : digits + close;
    return text_format(arena, "%.*s%.*s%.*s", (int)stem, list, (int)strcspn(digits, "-,]"), digits,
                       (int)strcspn(after, "[,\n "), after);
}

// Jobs on one host must not share a port: those with a number get one of their own.
static int port_of_job(const char *job)
{
    int sum = 0;
    for (; job && *job; job++)
        sum = (sum * 31 + (unsigned char)*job) % 8192;
    return GROUP_PLACE_USUAL_PORT + 1 + sum;
}

// Another process already listens on MASTER_PORT, or may: rank 0 takes the next one.
static enum err find_port(struct group_place *out, const struct reading *in,
                          const struct launcher *from)
{
    int master = 0;
    TRY(number_of(&master, in, from->port, 1, 65534));
    out->port = master ? master + 1 : port_of_job(out->job);
    TRY(number_of(&out->port, in, GROUP_PLACE_PORT, 1, 65535));
    int listener = 0; // 0: rank 0 is on another host
    TRY(number_of(&listener, in, GROUP_PLACE_LISTENER, 0, 1 << 20));
    out->has_parent = value_of(in, GROUP_PLACE_LISTENER) != NULL;
    out->listener = listener && !out->rank ? listener : -1;
    return OK;
}

static enum err find_address(struct group_place *out, const struct reading *in,
                             const struct launcher *from)
{
    const char *address = value_of(in, "MASTER_ADDR");
    address = address ? address : value_of(in, from->address);
    bool is_one_host = !out->is_per_host && out->local_size == out->size;
    if (address)
        out->address = group_place_first_host(in->arena, address);
    else if (is_one_host)
        out->address = "127.0.0.1";
    else
        return fail(ERR_USAGE,
                    "%s starts ranks on several hosts and does not say where rank 0 is; set "
                    "MASTER_ADDR to the name of its host",
                    from->name);
    return OK;
}

static enum err read_row(struct group_place *out, const struct reading *in,
                         const struct launcher *from)
{
    int most = 1 << 20;
    out->launcher = from->name;
    out->is_per_host = from->is_per_host;
    TRY(number_of(&out->size, in, from->size, 1, most));
    TRY(number_of(&out->rank, in, from->rank, 0, out->size - 1));
    out->local_rank = from->is_per_host ? 0 : out->rank;
    out->local_size = from->is_per_host ? 1 : out->size;
    TRY(number_of(&out->local_size, in, from->local_size, 1, most));
    TRY(number_of(&out->local_rank, in, from->local_rank, 0, most));
    out->job = value_of(in, from->job) ? value_of(in, from->job) : "";
    if (out->size == 1)
        return OK;
    TRY(find_address(out, in, from));
    return find_port(out, in, from);
}

enum err group_place_find(struct group_place *out, struct arena *arena,
                          char *(*variable)(const char *name))
{
    struct reading in = { arena, variable };
    *out = (struct group_place){ .size = 1, .local_size = 1, .listener = -1, .job = "" };
    int patience = GROUP_PLACE_PATIENCE_SECONDS;
    TRY(number_of(&patience, &in, GROUP_PLACE_PATIENCE, 1, 86400));
    out->patience_seconds = patience;
    out->secret = value_of(&in, GROUP_PLACE_SECRET);
    const struct launcher *from = launcher_find(variable);
    return from ? read_row(out, &in, from) : OK;
}
