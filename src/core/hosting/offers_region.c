// The area of the United States that a provider's region is in, by its name.

#include "core/hosting/offers.h"

#include <string.h>

// Parts of names, tried in this order: longer ones before those that they contain.
static const struct {
    const char *part, *area;
} places[] = {
    { "southcentralus", "us-south" },
    { "northcentralus", "us-central" },
    { "westcentralus", "us-west" },
    { "centralus", "us-central" },
    { "eastus", "us-east" },
    { "westus", "us-west" },
    { "us-east", "us-east" },
    { "us-west", "us-west" },
    { "us-central", "us-central" },
    { "us-southeast", "us-east" },
    { "us-south", "us-south" },
    { "us-midwest", "us-central" },
    { "ashburn", "us-east" },
    { "atlanta", "us-east" },
    { "beltsville", "us-east" },
    { "culpeper", "us-east" },
    { "dulles", "us-east" },
    { "newyork", "us-east" },
    { "ny2", "us-east" },
    { "maryland", "us-east" },
    { "virginia", "us-east" },
    { "carolina", "us-east" },
    { "florida", "us-east" },
    { "georgia", "us-east" },
    { "ohio", "us-east" },
    { "newjersey", "us-east" },
    { "chicago", "us-central" },
    { "desmoines", "us-central" },
    { "kansascity", "us-central" },
    { "michigan", "us-central" },
    { "illinois", "us-central" },
    { "iowa", "us-central" },
    { "nebraska", "us-central" },
    { "houston", "us-south" },
    { "dallas", "us-south" },
    { "texas", "us-south" },
    { "phoenix", "us-west" },
    { "sanjose", "us-west" },
    { "saltlakecity", "us-west" },
    { "casper", "us-west" },
    { "montana", "us-west" },
    { "oregon", "us-west" },
    { "california", "us-west" },
    { "nevada", "us-west" },
    { "washington", "us-west" },
    { "arizona", "us-west" },
    { "utah", "us-west" },
};

// Lower case, blanks left out.
static void flatten(char *out, size_t room, const char *text)
{
    size_t size = 0;
    for (; *text && size + 1 < room; text++)
        if (*text != ' ')
            out[size++] = (char)(*text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text);
    out[size] = 0;
}

const char *offers_area(const char *region)
{
    char flat[80];
    flatten(flat, sizeof flat, region ? region : "");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strstr(flat, places[i].part))
            return places[i].area;
    bool any = !*flat || !strcmp(flat, "us") || !strcmp(flat, "usa") || !strcmp(flat, "global") ||
               !strcmp(flat, "unitedstates") || !strcmp(flat, "northamerica");
    bool named = !strncmp(flat, "us-", 3) || strstr(flat, "-usa-") ||
                 (strlen(flat) > 4 && !strcmp(flat + strlen(flat) - 4, ",us")) ||
                 (strlen(flat) > 3 && !strcmp(flat + strlen(flat) - 3, ",us"));
    return any || named ? "us" : NULL;
}

bool offers_in_region(const struct offer *offer, const char *region)
{
    char own[80], wanted[80];
    const char *area = offers_area(offer->region);
    flatten(own, sizeof own, offer->region ? offer->region : "");
    flatten(wanted, sizeof wanted, region);
    if (!area)
        return *own && !strncmp(own, wanted, strlen(wanted));
    if (!*own || !strcmp(own, "global")) // may be anywhere
        return false;
    // A price for all regions is also a price for this one.
    if (!strcmp(wanted, "us") || !strcmp(area, "us"))
        return !strncmp(wanted, "us", 2) || offers_area(region) != NULL;
    return !strncmp(own, wanted, strlen(wanted)) || !strcmp(area, wanted);
}
