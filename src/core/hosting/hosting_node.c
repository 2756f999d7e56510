// SPDX-License-Identifier: Apache-2.0
// The node that an offer describes: its GPUs, links, network and storage.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

// Bytes/s for each GPU where neither offer nor catalog gives the network: 10 Gb/s for an instance
// that is part of a node, 100 Gb/s for a whole node without a fabric of its own. NAN where the
// GPU's usual node has a fabric: core/step/network then assumes one.
static double assumed_network(const struct node *usual, int64_t gpus)
{
    if (!usual || gpus < usual->gpus)
        return HOSTING_PART_NETWORK_BYTES_PER_S / (double)gpus;
    return usual->network_bytes_per_s_per_gpu > 0 ? NAN
                                                  : HOSTING_NODE_NETWORK_BYTES_PER_S / (double)gpus;
}

// The GPU's usual node, cut to the size of the instance: the same links as far as they reach, in a
// rack beyond it, and an unknown network.
static struct node cut_node(const struct node *usual, const struct gpu *gpu,
                            const struct offer *offer)
{
    struct node node = { 0 };
    if (usual) {
        node = *usual;
    } else {
        node.link_domain_gpus = offer->gpus;
        node.link = gpu->link;
        node.link_bytes_per_s = network_usual_link(gpu);
        node.link_p2p_bytes_per_s = gpu->link_p2p_bytes_per_s;
    }
    node.name = offer->instance;
    node.gpu = gpu->name;
    node.gpus = offer->gpus;
    bool part = !usual || offer->gpus < usual->gpus;
    if (part && node.link_domain_gpus > offer->gpus)
        node.link_domain_gpus = offer->gpus;
    node.network = NULL;
    node.network_bytes_per_s_per_gpu = assumed_network(usual, offer->gpus);
    node.network_bytes_per_s = NAN;
    node.local_disk_bytes = node.remote_storage_bytes_per_s = NAN;
    return node;
}

struct node hosting_node(const struct catalog *catalog, const struct gpu *gpu,
                         const struct offers_row *row, bool *networked)
{
    struct offer offer = row->offer;
    struct text name = offers_instance(&offer);
    if (name.size < strlen(offer.instance))
        offer.instance = text_copy(catalog->arena, name);
    const struct node *known = catalog_offer_node(catalog, &offer);
    struct node node = known ? *known : cut_node(catalog_node_of(catalog, gpu), gpu, &row->offer);
    *networked =
        (known && known->network_bytes_per_s_per_gpu > 0) || row->network_bytes_per_s_per_gpu > 0;
    if (!isnan(row->network_bytes_per_s_per_gpu))
        node.network_bytes_per_s_per_gpu = row->network_bytes_per_s_per_gpu;
    if (!isnan(row->storage_bytes_per_s))
        node.remote_storage_bytes_per_s = row->storage_bytes_per_s;
    return node;
}

static bool is_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

bool hosting_node_is(const struct node *a, const struct node *b, bool with_network)
{
    return a->gpus == b->gpus && a->link_domain_gpus == b->link_domain_gpus &&
           is_equal(a->link_bytes_per_s, b->link_bytes_per_s) &&
           (!with_network ||
            is_equal(a->network_bytes_per_s_per_gpu, b->network_bytes_per_s_per_gpu)) &&
           is_equal(a->remote_storage_bytes_per_s, b->remote_storage_bytes_per_s) &&
           (a->link == b->link || (a->link && b->link && !strcmp(a->link, b->link)));
}
