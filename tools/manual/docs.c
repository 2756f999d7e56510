#include "tools/manual/manual.h"
void manual_json(struct out *out)
{
    (void)out;
}
void manual_reference(struct out *out)
{
    (void)out;
}
int manual_keys(const char *kind, char **paths, int count, struct arena *arena)
{
    (void)kind, (void)paths, (void)count, (void)arena;
    return 0;
}
