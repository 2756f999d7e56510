// SPDX-License-Identifier: Apache-2.0
// The task for SkyPilot.

#include "core/launch/launch_internal.h"

#include <math.h>
#include <string.h>

static void put(struct out *out, const char *key, const char *text)
{
    out_put(out, "%s ", key);
    launch_yaml_text(out, text_of(text));
    out_char(out, '\n');
}

static void put_resources(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    struct arena *arena = job->arena;
    const char *cloud = p->provider ? launch_cloud(LAUNCH_SKY, p->provider) : NULL;
    bool named = !launch_asks_by_gpu(job);
    bool mega = p->machine && strstr(p->machine, "-megagpu-");
    out_put(out, "resources:\n");
    if (cloud)
        put(out, "  infra:", p->region ? text_format(arena, "%s/%s", cloud, p->region) : cloud);
    if (!named)
        put(out, "  accelerators:",
            text_format(arena, "%s:%lld",
                        mega ? "H100-MEGA" : launch_gpu(LAUNCH_SKY, p->gpu, arena),
                        (long long)p->gpus_per_node));
    if (cloud && p->machine)
        put(out, "  instance_type:", p->machine);
    if (p->spot)
        out_put(out, "  use_spot: true\n");
    if (!isnan(p->cap_usd_per_hour))
        out_put(out, "  max_hourly_cost: %.2f\n", p->cap_usd_per_hour);
    if (p->disk_bytes > 0) // half as much again, for the system and caches
        out_put(out, "  disk_size: %.0f\n", fmax(100, 10 * ceil(1.5 * p->disk_bytes / 1e10)));
    if (p->nodes > 1)
        out_put(out, "  network_tier: best\n");
    if (job->request->image)
        put(out, "  image_id:", text_format(arena, "docker:%s", job->request->image));
    out_put(out, "  autostop:\n    idle_minutes: 10\n    down: true\n");
    out_put(out, "  job_recovery:\n    strategy: %s\n    max_restarts_on_errors: %d\n",
            p->spot && !p->region ? "EAGER_NEXT_REGION" : "FAILOVER",
            p->spot ? LAUNCH_RESTARTS : 1);
}

static void put_mount(struct out *out, const char *at, const char *from, const char *mode)
{
    out_put(out, "  ");
    launch_yaml_text(out, text_of(at));
    if (!launch_is_bucket(from)) {
        put(out, ":", from);
        return;
    }
    put(out, ":\n    source:", from);
    put(out, "    mode:", mode);
}

static void put_mounts(const struct launch *job, struct out *out)
{
    const struct launch_request *r = job->request;
    out_put(out, "file_mounts:\n");
    put_mount(out, job->plan_at, job->plan->path, "COPY");
    if (r->data)
        put_mount(out, job->data_at, r->data, "MOUNT");
    if (r->output)
        put_mount(out, job->output_at, r->output, "MOUNT_CACHED");
}

void launch_sky(const struct launch *job, struct out *out)
{
    struct out body = { .arena = job->arena };
    launch_head(job, out);
    put(out, "name:", job->name);
    out_put(out, "num_nodes: %lld\n", (long long)job->place->nodes);
    put_resources(job, out);
    if (job->variable_count)
        out_put(out, "secrets: # by name; sky jobs launch --secret NAME takes the value\n");
    for (size_t i = 0; i < job->variable_count; i++)
        out_put(out, "  %s: null\n", job->variables[i]);
    put_mounts(job, out);
    if (job->request->setup)
        launch_yaml_block(out, 0,
                          "setup:", text_of(text_format(job->arena, "%s\n", job->request->setup)));
    launch_body(job,
                &(struct launch_node){ .rank = "\"$SKYPILOT_NODE_RANK\"",
                                       .master = "\"$(head -n 1 <<<\"$SKYPILOT_NODE_IPS\")\"",
                                       .restarts = true },
                &body);
    launch_yaml_block(out, 0, "run:", out_view(&body));
}
