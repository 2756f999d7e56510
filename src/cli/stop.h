// stop: whether the user asked to stop: SIGINT or SIGTERM, answered when it suits the work.
//
//     stop_listen();
//     while (!stop_asked)
//         TRY(step());

#pragma once

extern volatile int stop_asked;

void stop_listen(void); // from here on; nothing was asked yet
