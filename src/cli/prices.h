// SPDX-License-Identifier: Apache-2.0
// prices: reads a file of prices, packed or not, into a table of offers.
//
//     struct offers_source source = { .catalog = &catalog, .as_of = "2026-11-15" };
//     TRY(prices_read(&offers, &report, arena, &source, "catalog.zip"));
//
// gzip and zstd are unpacked on the way. Of a zip archive every CSV and JSON file is read; each
// gives its rows the provider that its name says, as SkyPilot's and gpuhunt's catalogs do.

#pragma once

#include "core/hosting/offers.h"

// source has all but text and name.
enum err prices_read(struct offers *out, struct offers_report *report, struct arena *arena,
                     const struct offers_source *source, const char *path);

// Reads every file of --offers in the command line's words: rows replace those of their provider,
// instance and region. other: the file of an option that was spelled otherwise, or NULL. Then adds
// one's own machine, if one was given.
struct command_line;
enum err prices_override(struct offers *offers, const struct command_line *line,
                         const struct catalog *catalog, const char *other,
                         const struct offers_machine *machine);
// The same for the offers of a catalog itself, by whose prices a plan is made. The machine is the
// last of them.
enum err prices_of_catalog(struct catalog *catalog, const struct command_line *line,
                           const char *other, const struct offers_machine *machine);
