// clock: seconds that only ever go on, for measuring how long something took.
//
//     double began = clock_seconds();
//     …
//     double took = clock_seconds() - began;

#pragma once

double clock_seconds(void); // since some moment; not the time of day
