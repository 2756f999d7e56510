// SPDX-License-Identifier: Apache-2.0
// yaml: reads YAML into the same tree as JSON, so that callers handle one format.
//
//     struct json tree;
//     TRY(yaml_read(&tree, arena, file.text, "axolotl.yml"));
//     json_get_number(&tree, "micro_batch_size", 1);
//
// Plain words are read as PyYAML reads them for the trainers (YAML 1.1: yes and off are booleans,
// 010 is eight), except numbers like 1e-4, which PyYAML leaves as text and every trainer converts
// to a number later. Anchors, aliases and merge keys are resolved; a key given twice has its last
// value. An empty file is null. Nesting beyond JSON_DEPTH, more than YAML_NODES values after
// aliases are resolved, an alias inside what it names and a second document are refused with name
// and line.

#pragma once

#include "base/json.h"

enum { YAML_NODES = 100000, YAML_KEYS = 4096 }; // of a document; of one mapping

enum err yaml_read(struct json *out, struct arena *arena, struct text in, const char *name);
