// SPDX-License-Identifier: Apache-2.0
// A plain bash script for a machine of one's own, or one that was rented by hand.

#include "core/launch/launch_internal.h"

void launch_script(const struct launch *job, struct out *out)
{
    out_put(out, "#!/bin/bash\n");
    launch_head(job, out);
    if (job->place->nodes > 1)
        out_put(out,
                "# Start it on every node: NODE_RANK=0 … %lld, MASTER_ADDR the first's address.\n",
                (long long)job->place->nodes - 1);
    out_char(out, '\n');
    launch_setup(job, out);
    launch_body(job,
                &(struct launch_node){ .rank = "\"${NODE_RANK:?number of this node, from 0}\"",
                                       .master = "\"${MASTER_ADDR:?address of node 0}\"" },
                out);
}
