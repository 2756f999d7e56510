// SPDX-License-Identifier: Apache-2.0
// Finds all descendants of a process through /proc.

#include "host/child_internal.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
    int pid, parent;
    char state;
    bool ours;
};

struct processes {
    struct process *items;
    size_t count, room;
};

static bool is_number(const char *name)
{
    return isdigit((unsigned char)*name);
}

// "pid (any name) state parent …"
static bool read_process(struct process *out, const char *name)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = 0;
    const char *name_end = strrchr(line, ')');
    return name_end && sscanf(line, "%d", &out->pid) == 1 &&
           sscanf(name_end + 1, " %c %d", &out->state, &out->parent) == 2;
}

static struct processes read_all(void)
{
    struct processes all = { 0 };
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct process process = { 0 };
        if (!is_number(entry->d_name) || !read_process(&process, entry->d_name))
            continue;
        if (all.count == all.room) {
            size_t room = all.room ? 2 * all.room : 512;
            struct process *grown = realloc(all.items, room * sizeof *grown);
            if (!grown)
                break;
            all.items = grown;
            all.room = room;
        }
        all.items[all.count++] = process;
    }
    if (folder)
        closedir(folder);
    return all;
}

static int compare(const void *a, const void *b)
{
    return ((const struct process *)a)->pid - ((const struct process *)b)->pid;
}

static bool parent_is_ours(const struct processes *all, int parent)
{
    struct process key = { .pid = parent };
    const struct process *found = bsearch(&key, all->items, all->count, sizeof key, compare);
    return found && found->ours;
}

static void mark(struct processes *all, int root)
{
    if (all->count) // none where memory ran out
        qsort(all->items, all->count, sizeof *all->items, compare);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < all->count; i++) {
            struct process *p = &all->items[i];
            if (p->ours)
                continue;
            p->ours = p->parent == root || parent_is_ours(all, p->parent);
            more = more || p->ours;
        }
    }
}

static void add(struct child_tree *tree, int pid)
{
    if (tree->count == tree->room) {
        size_t room = tree->room ? 2 * tree->room : 64;
        int *grown = realloc(tree->pids, room * sizeof *grown);
        if (!grown)
            return;
        tree->pids = grown;
        tree->room = room;
    }
    tree->pids[tree->count++] = pid;
}

void child_tree_scan(struct child_tree *tree, int root)
{
    struct processes all = read_all();
    mark(&all, root);
    tree->count = 0;
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].ours && all.items[i].state != 'Z' && all.items[i].state != 'X')
            add(tree, all.items[i].pid);
    free(all.items);
}

void child_tree_release(struct child_tree *tree)
{
    free(tree->pids);
    *tree = (struct child_tree){ 0 };
}

bool child_descends(int pid)
{
    enum { MOST = 256 };
    int self = (int)getpid();
    struct process process = { .parent = pid };
    for (int i = 0; i < MOST && process.parent > 1 && process.parent != self; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", process.parent);
        if (!read_process(&process, name))
            return false;
    }
    return process.parent == self && pid != self;
}
