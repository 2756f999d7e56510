// pages: has large blocks of memory in large pages, where the system offers them on request.
//
// A table of millions of slots that is asked at random spends a good part of its time on finding
// pages; in large ones counting tokens is some 6 % faster, and loading a tokenizer 6 ms.

#pragma once

void pages_init(void); // before anything large is allocated; once, by main
