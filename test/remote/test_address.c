// SPDX-License-Identifier: Apache-2.0
// Addresses, credentials and lists of buckets: pure readers, no connection.

#include "remote/address.h"
#include "remote/credentials.h"
#include "remote/listing.h"
#include "test/test.h"

#include <string.h>

TEST(address_is_taken_apart_as_it_is_written)
{
    struct address a;
    CHECK(!address_read(&a, "s3://bucket/a b/c=1/%20+é.jsonl") && a.kind == ADDRESS_S3);
    CHECK(text_is(a.bucket, "bucket") && text_is(a.key, "a b/c=1/%20+é.jsonl"));
    CHECK(!address_read(&a, "gs://my.bucket") && !a.key.size && a.kind == ADDRESS_GS);
    CHECK(address_kind("s3:/x") == ADDRESS_LOCAL && address_kind("./https://") == ADDRESS_LOCAL);
    CHECK(address_read(&a, "s3:///key") == ERR_INPUT &&
          address_read(&a, "s3://a b/c") == ERR_INPUT);
    CHECK(address_read(&a, "https:///x") == ERR_INPUT);
    CHECK(address_read(&a, "r2://bucket/key") == ERR_INPUT);
    CHECK(strstr(error_text(), "AWS_ENDPOINT_URL_S3"));
}

TEST(address_with_a_password_is_refused_and_a_query_is_not_shown)
{
    struct address a;
    CHECK(address_read(&a, "https://user:word-to-hide@host/x") == ERR_INPUT);
    CHECK(!strstr(error_text(), "word-to-hide"));
    CHECK(!strcmp(address_name(&test_arena, "https://h/x.gz?X-Amz-Signature=1"), "https://h/x.gz"));
    CHECK(!strcmp(address_name(&test_arena, "s3://b/what?.gz"), "s3://b/what?.gz"));
}

TEST(address_is_escaped_as_signatures_need_it)
{
    struct out out = { .arena = &test_arena };
    address_escape(&out, TEXT("a b/c=1&+~._-\xC3\xA9"), true);
    CHECK(!strcmp(out_string(&out), "a%20b/c%3D1%26%2B~._-%C3%A9"));
    struct out query = { .arena = &test_arena };
    address_escape(&query, TEXT("a/b"), false);
    CHECK(!strcmp(out_string(&query), "a%2Fb"));
    struct out web = { .arena = &test_arena };
    address_put_web(&web, "https://h/a b%20c\n?x=1&y=2#z");
    CHECK(!strcmp(out_string(&web), "https://h/a%20b%20c%0A?x=1&y=2"));
}

TEST(address_of_an_endpoint_gives_host_and_path)
{
    struct text host, path;
    CHECK(address_split("http://127.0.0.1:9000/", &host, &path));
    CHECK(text_is(host, "127.0.0.1:9000") && !path.size);
    CHECK(address_split("https://h/a/b/", &host, &path) && text_is(path, "/a/b"));
    CHECK(!address_split("h:9000", &host, &path) && !address_split("https://u@h", &host, &path));
    CHECK(!address_split("https://h/?x", &host, &path));
}

static struct credentials of_file(const char *file, const char *profile, bool is_config,
                                  bool *found)
{
    struct credentials c = { 0 };
    *found = false;
    CHECK(!credentials_read(&c, &test_arena, text_of(file), profile, is_config, found));
    return c;
}

TEST(credentials_of_a_profile_come_from_its_section_alone)
{
    static const char file[] = "# keys\n[other]\naws_access_key_id = X\n\n[ default ]\r\n"
                               "aws_access_key_id=ID\r\naws_secret_access_key = a/b+c=\n"
                               "s3 =\n  region = nested\nregion = eu-west-1\n"
                               "[profile work]\nrole_arn = arn\n";
    bool found;
    struct credentials c = of_file(file, "default", false, &found);
    CHECK(found && !strcmp(c.key_id, "ID") && !strcmp(c.secret, "a/b+c=") && !c.token);
    CHECK(!strcmp(c.region, "eu-west-1"));
    c = of_file(file, "work", true, &found);
    CHECK(found && !c.key_id && !strcmp(c.command, "role_arn"));
    of_file(file, "work", false, &found);
    CHECK(!found);
    of_file(file, "other", true, &found);
    CHECK(!found); // in the config file it would be called "profile other"
}

TEST(credentials_that_could_end_a_header_are_refused_unseen)
{
    struct credentials c = { 0 };
    bool found = false;
    CHECK(credentials_read(&c, &test_arena, TEXT("[a]\naws_secret_access_key = hide\x01me"), "a",
                           false, &found) == ERR_INPUT);
    CHECK(!strstr(error_text(), "hide"));
}

TEST(listing_reads_keys_with_entities_sizes_and_the_next_page)
{
    struct listing page;
    CHECK(!listing_read(
        &page, &test_arena,
        TEXT(
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated>"
            "<Contents><Key>a &amp; b/c=1&#x2B;&lt;&bad;.jsonl</Key><Size>12</Size>"
            "<ETag>&quot;abc&quot;</ETag><Owner><ID>o</ID></Owner></Contents>"
            "<Contents><Key>z</Key><Size>0</Size></Contents>"
            "<NextContinuationToken>t/1=&amp;</NextContinuationToken></ListBucketResult>")));
    CHECK(page.count == 2 && page.is_truncated && !strcmp(page.next, "t/1=&"));
    CHECK(!strcmp(page.objects[0].key, "a & b/c=1+<&bad;.jsonl") &&
          page.objects[0].size_bytes == 12);
    CHECK(!strcmp(page.objects[0].etag, "abc") && !*page.objects[1].etag);
}

TEST(listing_refuses_what_is_no_list_or_lies_about_itself)
{
    struct listing page;
    CHECK(listing_read(&page, &test_arena, TEXT("<html>")) == ERR_INPUT);
    CHECK(listing_read(&page, &test_arena, TEXT("")) == ERR_INPUT);
    CHECK(listing_read(&page, &test_arena,
                       TEXT("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents>"
                            "</ListBucketResult>")) == ERR_INPUT);
    CHECK(listing_read(&page, &test_arena,
                       TEXT("<ListBucketResult><Contents><Key>a</Key>"
                            "<Size>9223372036854775807</Size></Contents>"
                            "</ListBucketResult>")) == ERR_INPUT);
    CHECK(listing_read(&page, &test_arena,
                       TEXT("<ListBucketResult><IsTruncated>true</IsTruncated>"
                            "</ListBucketResult>")) == ERR_INPUT);
    char code[16];
    listing_error_code(code, sizeof code, TEXT("<Error><Code>NoSuchKey</Code></Error>"));
    CHECK(!strcmp(code, "NoSuchKey"));
    listing_error_code(code, sizeof code, TEXT("<Code>\x1B[31m</Code>"));
    CHECK(!*code);
}
