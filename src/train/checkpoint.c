// SPDX-License-Identifier: Apache-2.0
// Writes and reads checkpoints: state.safetensors, state.json and DONE in a folder per step.

#include "train/checkpoint.h"

#include "base/checksum.h"
#include "host/file.h"
#include "host/staging.h"
#include "train/files/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 2 };    // 1 had no checksums
enum { NAME_SIZE = 13 }; // "step-00000120"

static const struct field state_fields[] = {
    FIELD(checkpoint_state, step, COUNT, "steps done"),
    FIELD(checkpoint_state, epoch, COUNT, "of the next micro-batch"),
    FIELD(checkpoint_state, micro_batch, COUNT, "the next one of that epoch"),
    FIELD(checkpoint_state, trained_tokens, COUNT, "that carried loss"),
    FIELD(checkpoint_state, processed_tokens, COUNT, "all"),
    FIELD(checkpoint_state, seconds, SECONDS, "of training"),
    FIELD(checkpoint_state, best_loss, NUMBER, "on the held-out examples"),
    FIELD(checkpoint_state, checksum, TEXT, "of state.safetensors"),
    FIELD(checkpoint_state, fingerprint, TEXT, "data, model and options of the run"),
    { 0 },
};

// --- the tensors -------------------------------------------------------------

static const char *const prefixes[TRANSFORMER_STATES] = { "master.", "m.", "v." };

static enum storage stored_as(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? STORAGE_F64 : dtype == DTYPE_BF16 ? STORAGE_BF16 : STORAGE_F32;
}

static const char *name_of(struct arena *arena, const struct parameter *p,
                           enum transformer_state state)
{
    return text_format(arena, "%s%s", prefixes[state], p->name);
}

// A slot for each state of each weight, by weight and state.
static size_t *declare(struct safetensors_writer *out, struct arena *arena,
                       const struct transformer *t)
{
    size_t *slots = ARENA_NEW(arena, size_t, t->parameter_count * TRANSFORMER_STATES);
    for (size_t i = 0; i < t->parameter_count; i++)
        for (int state = 0; state < TRANSFORMER_STATES; state++) {
            const struct parameter *p = &t->parameters[i];
            struct tensor tensor = transformer_state(t, p, (enum transformer_state)state);
            if (tensor.at)
                slots[i * TRANSFORMER_STATES + (size_t)state] = safetensors_declare(
                    out, name_of(arena, p, (enum transformer_state)state), stored_as(tensor.dtype),
                    2, (int64_t[]){ tensor.rows, tensor.columns });
        }
    return slots;
}

static enum err write_tensor(struct safetensors_writer *out, size_t slot, struct transformer *t,
                             struct tensor tensor)
{
    struct arena scratch = { 0 };
    int64_t bytes = tensor_bytes(tensor);
    void *host = arena_alloc(&scratch, (size_t)bytes);
    t->device->backend->download(t->device, host, tensor.at, bytes);
    enum err err = safetensors_write(out, slot, 0, host, (size_t)bytes);
    arena_release(&scratch);
    return err;
}

static enum err gather(struct transformer *t, struct group *group, enum transformer_state state)
{
    transformer_gather_state(t, group, state);
    return group_wait(group);
}

// One state after the other: those that ranks share are gathered in the same memory.
static enum err write_all(struct safetensors_writer *out, struct transformer *t,
                          const size_t *slots, struct group *group)
{
    TRY(safetensors_begin(out));
    for (int state = 0; state < TRANSFORMER_STATES; state++) {
        TRY(gather(t, group, (enum transformer_state)state));
        for (size_t i = 0; i < t->parameter_count; i++) {
            struct tensor tensor =
                transformer_state(t, &t->parameters[i], (enum transformer_state)state);
            if (tensor.at)
                TRY(write_tensor(out, slots[i * TRANSFORMER_STATES + (size_t)state], t, tensor));
        }
    }
    return safetensors_finish(out);
}

static enum err write_tensors(const char *folder, struct transformer *t, struct arena *arena,
                              struct group *group)
{
    struct safetensors_writer out;
    safetensors_init(&out, arena, folder, "state");
    out.shard_bytes = SIZE_MAX; // a single file of any size: it is read back by this name
    const size_t *slots = declare(&out, arena, t);
    enum err err = write_all(&out, t, slots, group);
    safetensors_release_writer(&out);
    return err;
}

static enum err sum_file(const char **out, struct arena *arena, const char *path)
{
    struct file file;
    TRY(file_open(&file, path));
    *out = checksum_text(arena, checksum(file.text, 0));
    file_close(&file);
    return OK;
}

static enum err write_state(const char *folder, const struct checkpoint_state *given,
                            struct arena *arena)
{
    struct checkpoint_state state = *given;
    TRY(sum_file(&state.checksum, arena, text_format(arena, "%s/state.safetensors", folder)));
    struct out document = { .arena = arena };
    struct json_writer w = { .out = &document };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "checkpoint");
    json_put_count(&w, "version", VERSION);
    field_write(state_fields, &state, &w);
    json_close(&w, '}');
    out_char(&document, '\n');
    TRY(file_write(text_format(arena, "%s/state.json", folder), out_view(&document)));
    const char *seal = checksum_text(arena, checksum(out_view(&document), 0));
    return file_write(text_format(arena, "%s/DONE", folder),
                      text_of(text_format(arena, "%s\n", seal)));
}

// --- folders -----------------------------------------------------------------

static bool is_checkpoint(const char *name)
{
    return strlen(name) == NAME_SIZE && !strncmp(name, "step-", 5) &&
           strspn(name + 5, "0123456789") == NAME_SIZE - 5;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The names of all checkpoints, by ascending step.
static size_t list(const char ***out, struct arena *arena, const char *folder)
{
    size_t count = 0, room = 64;
    const char **names = ARENA_NEW(arena, const char *, room);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_checkpoint(entry->d_name))
            continue;
        if (count == room) {
            names = arena_grow(arena, names, room * sizeof *names, 2 * room * sizeof *names);
            room *= 2;
        }
        names[count++] = text_copy(arena, text_of(entry->d_name));
    }
    if (dir)
        closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    *out = names;
    return count;
}

// DONE is removed first: a half-removed folder is not a checkpoint.
static void remove_checkpoint(struct arena *arena, const char *folder)
{
    static const char *const names[] = { "DONE", "state.json", "state.safetensors" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(text_format(arena, "%s/%s", folder, names[i]));
    rmdir(folder);
}

static enum err make_folder(const char *path)
{
    if (mkdir(path, 0777) && errno != EEXIST)
        return fail(ERR_INPUT, "%s: cannot be created: %s", path, strerror(errno));
    return OK;
}

struct saving {
    struct transformer *t;
    const struct checkpoint_state *state;
    int64_t keep;
    struct group *group;
};

static enum err fill(const char *folder, const struct saving *saving, struct arena *arena)
{
    TRY(write_tensors(folder, saving->t, arena, saving->group));
    return write_state(folder, saving->state, arena);
}

static enum err write_new(const char *path, const struct saving *saving, struct arena *arena)
{
    struct staging staging;
    remove_checkpoint(arena, path);
    TRY(staging_open(&staging, arena, path));
    enum err err = fill(staging.temporary, saving, arena);
    err = err ? err : staging_commit(&staging);
    staging_release(&staging);
    return err;
}

// Whether this step is still to be saved, as the first rank sees it.
static enum err is_needed(bool *out, const struct saving *saving, const char *path,
                          struct arena *arena)
{
    double is_absent = !saving->group->rank && access(text_format(arena, "%s/DONE", path), F_OK);
    if (transformer_is_sharded(saving->t))
        TRY(group_sum(saving->group, &is_absent, 1));
    *out = is_absent > 0;
    return OK;
}

static enum err write_in(const char *folder, const struct saving *saving, struct arena *arena)
{
    const char *path = text_format(arena, "%s/step-%08lld", folder, (long long)saving->state->step);
    bool needed;
    TRY(is_needed(&needed, saving, path, arena));
    if (saving->group->rank) {
        for (int state = 0; needed && state < TRANSFORMER_STATES; state++)
            TRY(gather(saving->t, saving->group, (enum transformer_state)state));
        return OK;
    }
    TRY(make_folder(folder));
    if (needed)
        TRY(write_new(path, saving, arena));
    const char **names; // including those that a killed run did not remove
    size_t count = list(&names, arena, folder), keep = saving->keep > 0 ? (size_t)saving->keep : 1;
    for (size_t i = 0; i + keep < count; i++)
        remove_checkpoint(arena, text_format(arena, "%s/%s", folder, names[i]));
    return OK;
}

enum err checkpoint_write(const char *out, struct transformer *t,
                          const struct checkpoint_state *state, int64_t keep, struct group *group)
{
    struct arena arena = { 0 };
    struct saving saving = { t, state, keep, group };
    enum err err = group->rank ? OK : make_folder(out);
    if (!err)
        err = write_in(text_format(&arena, "%s/checkpoints", out), &saving, &arena);
    arena_release(&arena);
    return err;
}

// Removes folders that a killed run left incomplete.
static void remove_incomplete(struct arena *arena, const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t size = strlen(entry->d_name);
        if (size < 4 || strcmp(entry->d_name + size - 4, ".tmp"))
            continue;
        const char *incomplete = text_format(arena, "%s/%s", folder, entry->d_name);
        DIR *inner = opendir(incomplete);
        for (struct dirent *file; inner && (file = readdir(inner));)
            unlink(text_format(arena, "%s/%s", incomplete, file->d_name)); // fails for "." and ".."
        if (inner)
            closedir(inner);
        rmdir(incomplete);
    }
    if (dir)
        closedir(dir);
}

// --- verifying ---------------------------------------------------------------
//
// DONE holds the checksum of state.json, which holds the one of state.safetensors. A checkpoint of
// version 1 has neither and is taken as it is.

static enum err damaged(const char *path, const char *what)
{
    return fail(ERR_INPUT, "%s: is damaged: %s", path, what);
}

static enum err check_seal(struct arena *arena, const char *path, struct text state, bool *has_sums)
{
    struct text done;
    TRY(file_read(&done, arena, text_format(arena, "%s/DONE", path)));
    const char *seal = checksum_text(arena, checksum(state, 0));
    *has_sums = !text_is(done, "whole\n");
    if (*has_sums && !text_is(done, text_format(arena, "%s\n", seal)))
        return damaged(path, "state.json is not the one that was written");
    return OK;
}

// Reads and checks state.json. A version that this program does not know is *newer, no damage.
static enum err check_state(struct checkpoint_state *state, struct arena *arena, const char *path,
                            bool *newer)
{
    const char *name = text_format(arena, "%s/state.json", path);
    struct text text;
    struct json json;
    bool has_sums;
    TRY(file_read(&text, arena, name));
    TRY(check_seal(arena, path, text, &has_sums));
    TRY(json_read(&json, arena, text, name));
    if (!text_is(json_get_text(&json, "kind"), "checkpoint"))
        return damaged(path, "state.json is not of a checkpoint");
    double version = json_get_number(&json, "version", 0);
    *newer = version > VERSION;
    if (*newer)
        return fail(ERR_INPUT,
                    "%s: has version %.0f, this program reads up to %d; use a newer gpuhours, or "
                    "another --out",
                    path, version, VERSION);
    if (version != (has_sums ? VERSION : 1))
        return damaged(path, "state.json has no valid version");
    *state = (struct checkpoint_state){ .best_loss = NAN };
    TRY(field_read(state_fields, state, arena, &json, name, false));
    if (has_sums && !state->checksum)
        return damaged(path, "state.json has no checksum");
    return OK;
}

static enum err verify(struct arena *arena, const char *path, bool *newer)
{
    struct checkpoint_state state;
    const char *file = text_format(arena, "%s/state.safetensors", path), *sum;
    TRY(check_state(&state, arena, path, newer));
    if (state.step != atoll(strrchr(path, '-') + 1))
        return damaged(path, "state.json is of another step");
    TRY(sum_file(&sum, arena, file));
    if (state.checksum && strcmp(sum, state.checksum))
        return damaged(path, "state.safetensors is not the one that was written");
    struct safetensors in;
    TRY(safetensors_open(&in, arena, file));
    safetensors_release(&in);
    return OK;
}

bool checkpoint_any(const char *out)
{
    struct arena arena = { 0 };
    bool found = false;
    DIR *dir = opendir(text_format(&arena, "%s/checkpoints", out));
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    arena_release(&arena);
    return found;
}

enum err checkpoint_find(const char **path, const char **note, struct arena *arena, const char *out)
{
    const char **names, *folder = text_format(arena, "%s/checkpoints", out);
    struct out notes = { .arena = arena };
    *path = *note = NULL;
    remove_incomplete(arena, folder);
    for (size_t i = list(&names, arena, folder); i-- > 0 && !*path;) {
        const char *checkpoint = text_format(arena, "%s/%s", folder, names[i]);
        bool newer = false;
        if (access(text_format(arena, "%s/DONE", checkpoint), F_OK))
            continue;
        if (!verify(arena, checkpoint, &newer)) {
            *path = checkpoint;
            continue;
        }
        if (newer)
            return ERR_INPUT;
        out_put(&notes, "%s%s", notes.size ? "; " : "", error_text());
        if (rename(checkpoint, text_format(arena, "%s.damaged", checkpoint)))
            return fail(ERR_INPUT, "%s: is damaged and cannot be renamed: %s", checkpoint,
                        strerror(errno));
    }
    if (!notes.size)
        return OK;
    if (!*path)
        return fail(ERR_INPUT, "%s; no older checkpoint is left: run again to start over",
                    out_string(&notes));
    *note = text_format(arena, "%s; continuing from %s", out_string(&notes), *path);
    return OK;
}

// --- reading -----------------------------------------------------------------

static enum err read_tensor(struct transformer *t, const struct safetensors *in, const char *name,
                            const char *path, struct tensor to)
{
    const struct safetensors_tensor *found = safetensors_find(in, name);
    if (!found || found->type != stored_as(to.dtype) || (int64_t)found->bytes != tensor_bytes(to))
        return fail(ERR_INPUT,
                    "%s: has no tensor %s of the shape and type that this run needs; remove the "
                    "checkpoint or give another --out",
                    path, name);
    t->device->backend->upload(t->device, to.at, found->at, (int64_t)found->bytes);
    return OK;
}

static enum err read_all(struct transformer *t, struct arena *arena, const struct safetensors *in,
                         const char *path)
{
    for (int i = 0; i < TRANSFORMER_STATES; i++) {
        enum transformer_state state = (enum transformer_state)i;
        for (size_t j = 0; j < t->parameter_count; j++) {
            struct tensor to = transformer_state(t, &t->parameters[j], state);
            if (to.at)
                TRY(read_tensor(t, in, name_of(arena, &t->parameters[j], state), path, to));
        }
        if (state == TRANSFORMER_MASTER)
            transformer_refresh(t);
        transformer_keep_state(t, state);
    }
    return OK;
}

enum err checkpoint_read_tensors(struct transformer *t, struct arena *arena, const char *path)
{
    struct safetensors in;
    TRY(safetensors_open(&in, arena, text_format(arena, "%s/state.safetensors", path)));
    enum err err = read_all(t, arena, &in, path);
    safetensors_release(&in);
    return err;
}

enum err checkpoint_read_state(struct checkpoint_state *state, struct arena *arena,
                               const char *path)
{
    bool newer;
    return check_state(state, arena, path, &newer);
}
