// SPDX-License-Identifier: Apache-2.0
// clock: a monotonic clock in seconds, to measure how long something took.
//
//     double began = clock_seconds();
//     …
//     double took = clock_seconds() - began;

#pragma once

double clock_seconds(void); // since an arbitrary moment; not the time of day
