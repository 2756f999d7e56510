// SPDX-License-Identifier: Apache-2.0
// The table of offers: prices by kind, their age, billing terms, and our own CSV.

#include "core/hosting/offers.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const offers_kind_names[] = { "on-demand",  "spot",    "reserved-1y", "reserved-3y",
                                          "colocation", "managed", NULL };

const struct field billing_fields[] = {
    FIELD_NEEDED(billing, provider, TEXT, "provider; * is any other"),
    FIELD(billing, instance, TEXT, "how the instance types begin that this row is for"),
    FIELD_NEEDED(billing, granularity_seconds, NUMBER, "unit that running time is rounded up to"),
    FIELD_NEEDED(billing, minimum_seconds, NUMBER, "shortest time billed"),
    FIELD_NEEDED(billing, egress_usd_per_gb, NUMBER, "price of outgoing data per GB"),
    FIELD_NEEDED(billing, confidence, TEXT, "confidence: low, medium or high"),
    FIELD_NEEDED(billing, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(billing, as_of, DATE, "date of the figures"),
    FIELD(billing, storage_usd_per_gb_month, NUMBER, "price of a GB stored for a month"),
    FIELD(billing, storage_source, TEXT, "where that price comes from, and for which storage"),
    FIELD(billing, storage_as_of, DATE, "date of that price"),
    FIELD(billing, attested, TEXT, "what the provider states: hipaa, soc2, fedramp, iso27001"),
    FIELD(billing, attested_source, TEXT, "where it states so"),
    FIELD(billing, attested_as_of, DATE, "date of that statement"),
    FIELD(billing, note, TEXT, "remark"),
    { 0 },
};

// --- the table ---------------------------------------------------------------

void offers_clear_terms(struct offers_row *row)
{
    row->minimum_seconds = row->granularity_seconds = row->egress_usd_per_gb = NAN;
    row->queue_low_seconds = row->queue_seconds = row->queue_high_seconds = NAN;
    row->local_disk_bytes = row->storage_bytes_per_s = row->network_bytes_per_s_per_gpu = NAN;
    row->preemptions_per_hour = row->storage_usd_per_gb_month = NAN;
}

void offers_of_catalog(struct offers *out, struct arena *arena, const struct catalog *catalog)
{
    *out = (struct offers){ ARENA_NEW(arena, struct offers_row, catalog->offer_count + 1),
                            catalog->offer_count };
    for (size_t i = 0; i < out->count; i++) {
        offers_clear_terms(&out->rows[i]);
        out->rows[i].offer = catalog->offers[i];
    }
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static int by_place(const void *a, const void *b)
{
    const struct offer *x = &(*(const struct offers_row *const *)a)->offer,
                       *y = &(*(const struct offers_row *const *)b)->offer;
    int order = strcmp(x->provider, y->provider);
    order = order ? order : strcmp(or_empty(x->instance), or_empty(y->instance));
    return order ? order : strcmp(or_empty(x->region), or_empty(y->region));
}

void offers_override(struct offers *to, struct arena *arena, const struct offers *more)
{
    struct offers_row *rows = ARENA_NEW(arena, struct offers_row, to->count + more->count + 1);
    const struct offers_row **order = ARENA_NEW(arena, const struct offers_row *, more->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < more->count; i++)
        order[i] = &more->rows[i];
    qsort(order, more->count, sizeof *order, by_place);
    for (size_t i = 0; i < to->count; i++) {
        const struct offers_row *row = &to->rows[i];
        if (!bsearch(&row, order, more->count, sizeof *order, by_place))
            rows[count++] = *row;
    }
    if (more->count)
        memcpy(rows + count, more->rows, more->count * sizeof *rows);
    *to = (struct offers){ rows, count + more->count };
}

struct text offers_instance(const struct offer *offer)
{
    static const char suffix[] = "-block";
    struct text name = text_of(offer->instance);
    size_t size = sizeof suffix - 1;
    if (offer->price_kind == OFFER_BLOCK && name.size > size &&
        !memcmp(name.at + name.size - size, suffix, size))
        name.size -= size;
    return name;
}

double offers_price(const struct offer *offer, enum offers_kind kind)
{
    double usd = kind == OFFERS_ON_DEMAND     ? offer->on_demand_usd_per_hour
                 : kind == OFFERS_SPOT        ? offer->spot_usd_per_hour
                 : kind == OFFERS_RESERVED_1Y ? offer->reserved_1y_usd_per_hour
                 : kind == OFFERS_RESERVED_3Y ? offer->reserved_3y_usd_per_hour
                                              : NAN;
    return usd > 0 ? usd : NAN;
}

const char *offers_as_of(const struct offer *offer, enum offers_kind kind)
{
    if (kind == OFFERS_SPOT && offer->spot_as_of)
        return offer->spot_as_of;
    if ((kind == OFFERS_RESERVED_1Y || kind == OFFERS_RESERVED_3Y) && offer->reserved_as_of)
        return offer->reserved_as_of;
    return offer->as_of;
}

// --- dates -------------------------------------------------------------------

static int digits(const char *at, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9')
            return -1;
        value = value * 10 + (at[i] - '0');
    }
    return value;
}

// Days since the first of March of the year 0, in the proleptic Gregorian calendar: years begin
// with March, so that the leap day is their last.
static double day_number(const char *date)
{
    size_t size = date ? strlen(date) : 0;
    if (size != 4 && size != 7 && size != 10)
        return NAN;
    int year = digits(date, 4), month = size >= 7 ? digits(date + 5, 2) : 7;
    int day = size == 10 ? digits(date + 8, 2) : size == 7 ? 15 : 1;
    if (year < 0 || month < 1 || month > 12 || day < 1 || day > 31)
        return NAN;
    int from_march = (month + 9) % 12, y = month <= 2 ? year - 1 : year;
    return 365.0 * y + floor(y / 4.0) - floor(y / 100.0) + floor(y / 400.0) +
           floor((153 * from_march + 2) / 5.0) + day - 1;
}

double offers_days(const char *from, const char *to)
{
    return day_number(to) - day_number(from);
}

// --- terms -------------------------------------------------------------------

enum err offers_billing(struct billing **out, size_t *count, struct arena *arena, struct text csv,
                        const char *name)
{
    void *rows = NULL;
    TRY(field_read_csv(billing_fields, sizeof **out, &rows, count, arena, csv, name));
    *out = rows;
    for (size_t i = 0; i < *count; i++)
        if (!((*out)[i].granularity_seconds > 0) || !((*out)[i].minimum_seconds >= 0) ||
            !((*out)[i].egress_usd_per_gb >= 0))
            return fail(ERR_INPUT,
                        "%s: %s: granularity_seconds must be above 0, minimum_seconds and "
                        "egress_usd_per_gb 0 or more",
                        name, (*out)[i].provider);
    return OK;
}

const struct billing *offers_terms(const struct billing *rows, size_t count, const char *provider,
                                   const char *instance)
{
    const struct billing *any = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct billing *b = &rows[i];
        if (!strcmp(b->provider, "*") && !any)
            any = b;
        if (!strcmp(b->provider, provider) &&
            (!b->instance || !strncmp(b->instance, instance, strlen(b->instance))))
            return b;
    }
    return any;
}

const struct billing *offers_storage(const struct billing *rows, size_t count,
                                     const struct billing *terms)
{
    return isnan(terms->storage_usd_per_gb_month) ? offers_terms(rows, count, "*", "") : terms;
}

bool offers_tagged(const char *tags, struct text word)
{
    struct text rest = text_of(tags ? tags : ""), tag;
    while (text_next(&rest, '|', &tag))
        if (text_equal(text_trim(tag), word))
            return true;
    return false;
}

// --- our own CSV -------------------------------------------------------------

// A cell on one line, which no spreadsheet computes: imported catalogs may hold anything.
static void put_cell(struct out *out, const char *text)
{
    bool quoted = strpbrk(text, ",\"\n\r") != NULL;
    if (quoted)
        out_char(out, '"');
    if (*text && strchr("=+-@", *text))
        out_char(out, '\'');
    for (; *text; text++) {
        if (*text == '"')
            out_char(out, '"');
        out_char(out, isspace((unsigned char)*text) ? ' ' : *text);
    }
    if (quoted)
        out_char(out, '"');
}

static void put_member(struct out *out, const struct field *f, const struct offer *offer)
{
    const char *at = (const char *)offer + f->offset;
    if (!field_known(f, offer))
        return;
    if (f->kind == FIELD_TEXT || f->kind == FIELD_DATE)
        put_cell(out, *(const char *const *)at);
    else if (f->kind == FIELD_CHOICE)
        put_cell(out, f->choices[*(const int *)at]);
    else if (f->kind == FIELD_COUNT)
        out_put(out, "%lld", (long long)*(const int64_t *)at);
    else
        out_put(out, "%.10g", *(const double *)at);
}

void offers_write(const struct offers *offers, struct out *out)
{
    for (const struct field *f = offer_fields; f->name; f++)
        out_put(out, "%s%s", f == offer_fields ? "" : ",", f->name);
    out_char(out, '\n');
    for (size_t i = 0; i < offers->count; i++) {
        for (const struct field *f = offer_fields; f->name; f++) {
            if (f != offer_fields)
                out_char(out, ',');
            put_member(out, f, &offers->rows[i].offer);
        }
        out_char(out, '\n');
    }
}
