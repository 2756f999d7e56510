// SPDX-License-Identifier: Apache-2.0
// Notes SIGINT and SIGTERM in a flag that the work looks at.

#include "cli/terminal/stop.h"

#include <stddef.h>

volatile sig_atomic_t stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

void stop_listen(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    stop_asked = 0;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}
