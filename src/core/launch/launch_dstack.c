// SPDX-License-Identifier: Apache-2.0
// The task for dstack.

#include "core/launch/launch_internal.h"

#include <math.h>

static void put(struct out *out, const char *key, const char *text)
{
    out_put(out, "%s ", key);
    launch_yaml_text(out, text_of(text));
    out_char(out, '\n');
}

static void put_place(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    struct arena *arena = job->arena;
    // By its GPUs: most of dstack's names of instances are others than those of the catalog.
    if (p->provider)
        put(out, "backends:\n  -", launch_cloud(LAUNCH_DSTACK, p->provider));
    if (p->provider && p->region && launch_regions_are_its_own(p->provider))
        put(out, "regions:\n  -", p->region);
    out_put(out, "spot_policy: %s\n", p->spot ? "spot" : "on-demand");
    if (!isnan(p->cap_usd_per_hour))
        out_put(out, "max_price: %.2f\n", p->cap_usd_per_hour);
    out_put(out, "max_duration: %lldm\n", (long long)(job->limit_seconds / 60));
    out_put(out, "stop_duration: %lldm\n", (long long)((job->grace_seconds + 59) / 60));
    // Retries go on as long as the run may last.
    out_put(out, "retry:\n  on_events:\n    - no-capacity\n    - interruption\n  duration: %lldm\n",
            (long long)(job->limit_seconds / 60));
    out_put(out, "resources:\n");
    put(out, "  gpu:",
        text_format(arena, "%s:%lld", launch_gpu(LAUNCH_DSTACK, p->gpu, arena),
                    (long long)p->gpus_per_node));
    if (p->disk_bytes > 0)
        out_put(out, "  disk: %.0fGB..\n", fmax(100, 10 * ceil(1.5 * p->disk_bytes / 1e10)));
    if (p->gpus_per_node > 1) // for the data loaders and NCCL
        out_put(out, "  shm_size: 16GB\n");
}

// A volume by its name, or a file of this machine, for short: "from:to".
static void put_pair(struct out *out, struct arena *arena, const char *from, const char *to)
{
    out_put(out, "  - ");
    launch_yaml_text(out, text_of(text_format(arena, "%s:%s", from, to)));
    out_char(out, '\n');
}

void launch_dstack(const struct launch *job, struct out *out)
{
    const struct launch_request *r = job->request;
    struct arena *arena = job->arena;
    struct out body = { .arena = arena };
    launch_head(job, out);
    put(out, "type: task\nname:", job->name);
    out_put(out, "nodes: %lld\n", (long long)job->place->nodes);
    if (r->image)
        put(out, "image:", r->image);
    out_put(out, "shell: bash\n");
    if (job->variable_count)
        out_put(out, "env: # by name; dstack apply takes the values from your environment\n");
    for (size_t i = 0; i < job->variable_count; i++)
        out_put(out, "  - %s\n", job->variables[i]);
    out_put(out, "files:\n");
    put_pair(out, arena, job->plan->path, job->plan_at);
    if (r->data)
        put_pair(out, arena, r->data, job->data_at);
    if (r->output) {
        out_put(out, "volumes:\n");
        put_pair(out, arena, r->output, job->output_at);
    }
    put_place(job, out);
    launch_setup(job, &body);
    launch_body(job,
                &(struct launch_node){ .rank = "\"$DSTACK_NODE_RANK\"",
                                       .master = "\"$DSTACK_MASTER_NODE_IP\"",
                                       .limits = true,
                                       .restarts = true },
                &body);
    out_put(out, "commands:\n");
    launch_yaml_block(out, 2, "-", out_view(&body));
}
