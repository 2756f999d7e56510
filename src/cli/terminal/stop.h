// SPDX-License-Identifier: Apache-2.0
// stop: whether SIGINT or SIGTERM arrived; long work checks it between two steps.
//
//     stop_listen();
//     while (!stop_asked)
//         TRY(step());

#pragma once

#include <signal.h>

extern volatile sig_atomic_t stop_asked;

void stop_listen(void); // installs the handlers and clears stop_asked
