// SPDX-License-Identifier: Apache-2.0
// The Job for Kubernetes: a pod per node, and a Service by which the pods find the first.

#include "core/launch/launch_internal.h"

#include <string.h>

static void put(struct out *out, const char *key, const char *text)
{
    out_put(out, "%s ", key);
    launch_yaml_text(out, text_of(text));
    out_char(out, '\n');
}

static void put_service(const struct launch *job, struct out *out)
{
    out_put(out,
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\nspec:\n  clusterIP: None\n"
            "  publishNotReadyAddresses: true\n"
            "  selector:\n    job-name: %s\n---\n",
            job->name, job->name);
}

// A lost node is no error of the run: the pod starts again and goes on from its checkpoint. The
// time limit is the body's, whose exit code of 124 ends the Job: Kubernetes' own would count the
// time that pods wait for GPUs.
static void put_spec(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    out_put(out, "spec:\n  completionMode: Indexed\n  completions: %lld\n  parallelism: %lld\n",
            (long long)p->nodes, (long long)p->nodes);
    if (p->nodes > 1)
        out_put(
            out,
            "  # A pod that is lost starts again alone. The other pods wait for it until their\n"
            "  # collectives time out (10 minutes in PyTorch), fail and start again from the\n"
            "  # checkpoint, too: the loss of one pod may take %lld of these failures.\n",
            (long long)p->nodes + 1);
    out_put(out, "  backoffLimit: %lld\n",
            (long long)LAUNCH_RESTARTS * (p->nodes + (p->nodes > 1)));
    out_put(out, "  podFailurePolicy:\n    rules:\n      - action: FailJob\n"
                 "        onExitCodes:\n          containerName: trainer\n"
                 "          operator: In\n          values: [124] # the time limit\n");
    if (p->spot)
        out_put(out, "      - action: Ignore\n        onPodConditions:\n"
                     "          - type: DisruptionTarget\n            status: \"True\"\n");
}

static void put_variables(const struct launch *job, struct out *out)
{
    if (!job->variable_count)
        return;
    out_put(out, "          env:\n");
    for (size_t i = 0; i < job->variable_count; i++)
        out_put(out,
                "            - name: %s\n              valueFrom:\n                secretKeyRef:\n"
                "                  name: %s\n                  key: %s\n",
                job->variables[i], job->name, job->variables[i]);
}

static void put_mount(struct out *out, const char *name, const char *at)
{
    out_put(out, "            - name: %s\n", name);
    put(out, "              mountPath:", at);
}

static void put_claim(struct out *out, const char *name, const char *claim)
{
    out_put(out, "        - name: %s\n", name);
    if (claim)
        put(out, "          persistentVolumeClaim:\n            claimName:", claim);
    else
        out_put(out, "          emptyDir: {} # lost with the pod\n");
}

static void put_volumes(const struct launch *job, struct out *out)
{
    const struct launch_request *r = job->request;
    out_put(out, "          volumeMounts:\n");
    put_mount(out, "plan", "/gpuhours");
    if (r->data)
        put_mount(out, "data", job->data_at);
    put_mount(out, "output", job->output_at);
    put_mount(out, "memory", "/dev/shm");
    out_put(out,
            "      volumes:\n        - name: plan\n          configMap:\n            name: %s\n",
            job->name);
    if (r->data)
        put_claim(out, "data", r->data);
    put_claim(out, "output", r->output);
    out_put(out, "        - name: memory\n          emptyDir:\n            medium: Memory\n");
}

// A pod that requests nothing gets what others leave, and is the first to be evicted. Kubernetes
// keeps a part of each node for itself: of the catalog's 336 instance types 78 % have 8 CPUs a GPU
// beside 2 % for it, and 92 % have 7.
enum { CPUS_PER_GPU = 7 };

static int64_t cpus_of(const struct launch *job)
{
    return CPUS_PER_GPU * job->place->gpus_per_node;
}

const char *launch_k8s_host(const struct launch *job)
{
    return text_format(job->arena, "each pod requests %lld CPUs and %lld GiB of memory",
                       (long long)cpus_of(job), (long long)launch_memory_gib(job));
}

static void put_resources(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    const char *vendor = p->vendor && !strcmp(p->vendor, "amd") ? "amd" : "nvidia";
    out_put(out,
            "          resources:\n            requests:\n              cpu: %lld\n"
            "              memory: %lldGi\n            limits:\n              %s.com/gpu: %lld\n",
            (long long)cpus_of(job), (long long)launch_memory_gib(job), vendor,
            (long long)p->gpus_per_node);
}

void launch_k8s(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    const struct launch_request *r = job->request;
    struct out body = { .arena = job->arena };
    launch_head(job, out);
    if (p->nodes > 1)
        put_service(job, out);
    out_put(out, "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %s\n", job->name);
    if (r->partition)
        put(out, "  labels:\n    kueue.x-k8s.io/queue-name:", r->partition);
    put_spec(job, out);
    out_put(out, "  template:\n    spec:\n      restartPolicy: Never\n");
    out_put(out, "      terminationGracePeriodSeconds: %lld\n", (long long)job->grace_seconds);
    if (p->nodes > 1)
        out_put(out, "      subdomain: %s\n", job->name);
    out_put(out, "      containers:\n        - name: trainer\n");
    put(out, "          image:", r->image);
    launch_setup(job, &body);
    launch_body(
        job,
        &(struct launch_node){ .rank = "\"$JOB_COMPLETION_INDEX\"",
                               .master = text_format(job->arena, "%s-0.%s", job->name, job->name),
                               .restarts = true },
        &body);
    out_put(out, "          command:\n            - bash\n            - -c\n");
    launch_yaml_block(out, 12, "-", out_view(&body));
    put_variables(job, out);
    put_resources(job, out);
    put_volumes(job, out);
}
