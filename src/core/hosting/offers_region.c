// SPDX-License-Identifier: Apache-2.0
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

// Codes of cities, which a number may follow: "nyc2". Parts of longer words mean nothing.
static const struct {
    const char *part, *area;
} codes[] = {
    { "nyc", "us-east" }, { "ewr", "us-east" },    { "iad", "us-east" },  { "atl", "us-east" },
    { "mia", "us-east" }, { "ord", "us-central" }, { "dfw", "us-south" }, { "lax", "us-west" },
    { "sfo", "us-west" }, { "sjc", "us-west" },    { "sea", "us-west" },
};

static bool is_code(const char *flat, const char *code)
{
    size_t size = strlen(code);
    return !strncmp(flat, code, size) && flat[size + strspn(flat + size, "0123456789")] == 0;
}

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
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (is_code(flat, codes[i].part))
            return codes[i].area;
    bool any = !strcmp(flat, "us") || !strcmp(flat, "usa") || !strcmp(flat, "unitedstates") ||
               !strcmp(flat, "northamerica");
    bool named = !strncmp(flat, "us-", 3) || strstr(flat, "-usa-") || strstr(flat, ",us,") ||
                 (strlen(flat) > 2 && !strcmp(flat + strlen(flat) - 3, ",us"));
    return any || named ? "us" : NULL;
}

bool offers_is_placed(const char *region)
{
    return region && *region && strcmp(region, "global") && strcmp(region, "default") &&
           strcmp(region, OFFERS_NO_REGION) && strcmp(region, OFFERS_HERE);
}

bool offers_in_region(const struct offer *offer, const char *region)
{
    char own[80], wanted[80];
    const char *area = offers_area(offer->region);
    flatten(own, sizeof own, offer->region ? offer->region : "");
    flatten(wanted, sizeof wanted, region);
    if (!area)
        return offers_is_placed(own) && !strncmp(own, wanted, strlen(wanted));
    // A price for all regions is also a price for this one.
    if (!strcmp(wanted, "us") || !strcmp(area, "us"))
        return !strncmp(wanted, "us", 2) || offers_area(region) != NULL;
    return !strncmp(own, wanted, strlen(wanted)) || !strcmp(area, wanted);
}
