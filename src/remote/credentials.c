// SPDX-License-Identifier: Apache-2.0
// Finds keys for object stores where the AWS tools keep them, and keeps them out of core dumps.

#define _DEFAULT_SOURCE // explicit_bzero

#include "remote/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { LONGEST_FILE_BYTES = 1 << 20, LONGEST_VALUE_BYTES = 8192 };

// --- a file of profiles ------------------------------------------------------

static bool is_section_of(struct text line, const char *profile, bool is_config)
{
    struct text name = text_trim((struct text){ line.at + 1, line.size - 2 });
    if (is_config && name.size > 8 && !memcmp(name.at, "profile", 7) &&
        (name.at[7] == ' ' || name.at[7] == '\t'))
        return text_is(text_trim((struct text){ name.at + 7, name.size - 7 }), profile);
    return text_is(name, profile) && (!is_config || !strcmp(profile, "default"));
}

// Headers are made of these values: one that holds a control character would end its header.
static enum err keep(const char **slot, struct arena *arena, struct text value, const char *what)
{
    for (size_t i = 0; i < value.size; i++)
        if ((unsigned char)value.at[i] < 0x21 || value.at[i] == 127)
            return fail(ERR_INPUT, "%s holds a space or a control character", what);
    if (value.size > LONGEST_VALUE_BYTES)
        return fail(ERR_INPUT, "%s is longer than %d bytes", what, LONGEST_VALUE_BYTES);
    if (!*slot && value.size)
        *slot = text_copy(arena, value);
    return OK;
}

static enum err take_setting(struct credentials *c, struct arena *arena, struct text key,
                             struct text value, bool keys_too)
{
    const struct {
        const char *key;
        const char **slot;
        bool is_key;
    } settings[] = {
        { "aws_access_key_id", &c->key_id, true }, { "aws_secret_access_key", &c->secret, true },
        { "aws_session_token", &c->token, true },  { "region", &c->region, false },
        { "endpoint_url", &c->endpoint, false },
    };
    static const char *const commands[] = { "credential_process", "sso_session", "sso_start_url",
                                            "role_arn", "web_identity_token_file" };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (text_is(key, settings[i].key) && (keys_too || !settings[i].is_key))
            return keep(settings[i].slot, arena, value, settings[i].key);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (text_is(key, commands[i]))
            c->command = commands[i];
    return OK;
}

enum err credentials_read(struct credentials *out, struct arena *arena, struct text file,
                          const char *profile, bool is_config, bool *found)
{
    bool inside = false, keys_too = !out->key_id;
    for (struct text rest = text_after_mark(file), line; text_next(&rest, '\n', &line);) {
        bool is_nested = line.size && (line.at[0] == ' ' || line.at[0] == '\t');
        line = text_trim(line);
        if (!line.size || line.at[0] == '#' || line.at[0] == ';')
            continue;
        if (line.at[0] == '[') {
            inside = line.size > 2 && line.at[line.size - 1] == ']' &&
                     is_section_of(line, profile, is_config);
            *found = *found || inside;
            continue;
        }
        const char *equals = memchr(line.at, '=', line.size);
        if (!inside || is_nested || !equals)
            continue;
        struct text key = text_trim((struct text){ line.at, (size_t)(equals - line.at) });
        struct text value = { equals + 1, line.size - (size_t)(equals + 1 - line.at) };
        TRY(take_setting(out, arena, key, text_trim(value), keys_too));
    }
    return OK;
}

// --- where to look -----------------------------------------------------------

static const char *set_or_null(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// The file's content in the arena; empty if there is no such file.
static enum err read_whole(struct text *out, struct arena *arena, const char *path)
{
    *out = TEXT("");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? OK
                   : fail(ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    char *at = arena_alloc(arena, LONGEST_FILE_BYTES);
    size_t size = 0;
    ssize_t got;
    do {
        got = read(fd, at + size, LONGEST_FILE_BYTES - size);
        size += got > 0 ? (size_t)got : 0;
    } while ((got > 0 && size < LONGEST_FILE_BYTES) || (got < 0 && errno == EINTR));
    int reason = errno;
    close(fd);
    if (got < 0)
        return fail(ERR_INPUT, "%s: cannot be read: %s", path, strerror(reason));
    if (size == LONGEST_FILE_BYTES)
        return fail(ERR_INPUT, "%s: is longer than %d bytes; is it a file of profiles?", path,
                    LONGEST_FILE_BYTES);
    *out = (struct text){ at, size };
    return OK;
}

static enum err read_profile(struct credentials *out, struct arena *arena, const char *variable,
                             const char *usual, const char *profile, bool is_config, bool *found)
{
    const char *path = set_or_null(variable), *home = set_or_null("HOME");
    struct text file;
    if (!path && !home)
        return OK;
    if (!path)
        path = text_format(arena, "%s/.aws/%s", home, usual);
    struct arena scratch = { 0 };
    enum err err = read_whole(&file, &scratch, path);
    if (!err && (err = credentials_read(out, arena, file, profile, is_config, found)))
        err = error_prefix(err, "%s: profile %s: ", path, profile);
    if (!err && file.size)
        explicit_bzero((void *)file.at, file.size);
    arena_release(&scratch);
    return err;
}

static enum err read_environment(struct credentials *out, struct arena *arena)
{
    const struct {
        const char *name;
        const char **slot;
    } variables[] = {
        { "AWS_ACCESS_KEY_ID", &out->key_id },  { "AWS_SECRET_ACCESS_KEY", &out->secret },
        { "AWS_SESSION_TOKEN", &out->token },   { "AWS_REGION", &out->region },
        { "AWS_DEFAULT_REGION", &out->region }, { "AWS_ENDPOINT_URL_S3", &out->endpoint },
        { "AWS_ENDPOINT_URL", &out->endpoint },
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = set_or_null(variables[i].name);
        if (value)
            TRY(keep(variables[i].slot, arena, text_trim(text_of(value)), variables[i].name));
    }
    return OK;
}

enum err credentials_find(struct credentials *out, struct arena *arena)
{
    *out = (struct credentials){ 0 };
    if (prctl(PR_SET_DUMPABLE, 0))
        return fail(ERR_UNAVAILABLE, "core dumps cannot be turned off: %s; no key is read",
                    strerror(errno));
    TRY(read_environment(out, arena));
    if (!out->key_id != !out->secret)
        return fail(ERR_INPUT, "%s is set and %s is not; both are needed",
                    out->key_id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                    out->key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    const char *named = set_or_null("AWS_PROFILE");
    if (!named)
        named = set_or_null("AWS_DEFAULT_PROFILE");
    const char *profile = named ? named : "default";
    bool found = false, had_keys = out->key_id;
    if (!had_keys)
        out->token = NULL; // of nothing
    TRY(read_profile(out, arena, "AWS_SHARED_CREDENTIALS_FILE", "credentials", profile, false,
                     &found));
    TRY(read_profile(out, arena, "AWS_CONFIG_FILE", "config", profile, true, &found));
    if (named && !found && !had_keys)
        return fail(ERR_INPUT,
                    "AWS_PROFILE is %s, and no such profile is in ~/.aws/credentials or "
                    "~/.aws/config",
                    named);
    if (out->key_id && !out->secret)
        return fail(ERR_INPUT, "profile %s has aws_access_key_id and no aws_secret_access_key",
                    profile);
    if (!out->key_id && out->command && named)
        return fail(ERR_INPUT,
                    "profile %s gets its keys by %s, which is not supported; run: eval \"$(aws "
                    "configure export-credentials --profile %s --format env)\"",
                    profile, out->command, profile);
    return OK;
}
