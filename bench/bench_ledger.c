// SPDX-License-Identifier: Apache-2.0
// Time that a command spends to write to the ledger, against a limit of 5 ms.

#include "core/measured/history.h"
#include "host/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Opens, adds one plan of the usual size, closes: as each command does.
static int add(const char *path, const char *document, int number)
{
    struct ledger *ledger;
    struct ledger_options options = { .path = path, .wait_seconds = 5 };
    char uid[32];
    snprintf(uid, sizeof uid, "%016d", number);
    struct history_entry e;
    history_clear(&e);
    e.uid = uid, e.kind = HISTORY_PLAN, e.at = "2026-11-15T11:20:05Z", e.document = document;
    if (ledger_open(&ledger, &options))
        return 1;
    enum err err = ledger_add(ledger, history_fields, &e);
    ledger_close(ledger);
    return (int)err;
}

int main(void)
{
    enum { COUNT = 500, SIZE = 20000 };
    char folder[] = "/tmp/gpuhours-bench-XXXXXX", path[64], command[80];
    static char document[SIZE];
    static double seconds[COUNT];
    memset(document, 'x', SIZE - 1);
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/ledger.sqlite", folder);
    for (int i = 0; i < COUNT; i++) {
        double start = now();
        if (add(path, document, i)) {
            printf("%s\n", error_text());
            return 1;
        }
        seconds[i] = now() - start;
    }
    qsort(seconds, COUNT, sizeof *seconds, by_size);
    printf(
        "ledger: open, add 20 kB, close            %.2f ms at best, %.2f in the middle, %.2f nine "
        "in ten; %.0f %% of the limit\n",
        1e3 * seconds[0], 1e3 * seconds[COUNT / 2], 1e3 * seconds[COUNT * 9 / 10],
        1e3 * seconds[COUNT / 2] / 5 * 100);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) || seconds[COUNT / 2] > 5e-3;
}
