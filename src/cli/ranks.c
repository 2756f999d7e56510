// SPDX-License-Identifier: Apache-2.0
// Joins a group of ranks, or starts it, and reports the failure of one.

#include "cli/ranks.h"

#include "cli/terminal/print.h"
#include "train/group/group_start.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **words_of(const struct command_line *line, const char *command)
{
    char **words = ARENA_NEW(line->arena, char *, line->count + 3);
    words[0] = "gpuhours";
    words[1] = arena_copy(line->arena, command, strlen(command));
    memcpy(words + 2, line->words, (size_t)line->count * sizeof *words);
    return words;
}

// Another rank is lost: says so, if it is this rank's to say.
static void end_process(void *context, enum err err, const char *text)
{
    (void)context;
    if (text)
        print_note("%s", text);
    _exit(err);
}

enum err ranks_open(struct group *group, struct command_line *line, const char *command,
                    int64_t asked, bool *is_over)
{
    struct group_place place;
    TRY(group_place_find(&place, line->arena, getenv));
    *is_over = group_start_is_wanted(&place, asked);
    if (*is_over)
        return group_start(line->arena, words_of(line, command), &place, asked);
    place.lost = end_process;
    return group_open(group, &place);
}

// What fails on all ranks, such as a file that is not there, is told by rank 0 alone: the others
// give it a moment to end them. A run that was stopped and saved is no failure of theirs: launchers
// that see one end the job, and rank 0 before it has said so.
enum err ranks_report(struct group *group, enum err err)
{
    if (!err || group->size == 1)
        return err;
    if (err == ERR_ANSWER)
        return group->rank ? OK : err;
    if (group->rank)
        poll(NULL, 0, 500 + (group->rank < 50 ? 10 * group->rank : 500));
    print_note("rank %d: %s", group->rank, error_text());
    group_abort(group, err);
    return fail(err, "%s", ""); // it has been told
}
