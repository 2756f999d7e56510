// SPDX-License-Identifier: Apache-2.0
// pages: huge pages for large blocks of memory, where the system offers them on request.
//
// Random lookups in a table of millions of slots spend much of their time on TLB misses. With huge
// pages, to which large blocks are aligned, counting tokens is 10 to 15 % faster.

#pragma once

void pages_init(void); // before anything large is allocated; once, by main
