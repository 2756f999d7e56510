// SPDX-License-Identifier: Apache-2.0
// pages: huge pages for large blocks of memory, where the system offers them on request.
//
// Random lookups in a table of millions of slots spend much of their time on TLB misses. With huge
// pages counting tokens was about 6 % faster, and 6 to 10 % more once blocks were aligned to them.

#pragma once

void pages_init(void); // before anything large is allocated; once, by main
