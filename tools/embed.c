// SPDX-License-Identifier: Apache-2.0
// embed FILE...: prints C source with the content of the files, which base/embedded finds by name.

#include <stdio.h>
#include <string.h>

static int embed(const char *path, int index, long *size)
{
    FILE *in = fopen(path, "rb");
    if (!in) {
        fprintf(stderr, "embed: cannot open %s\n", path);
        return 1;
    }
    printf("static const unsigned char file_%d[] = {", index);
    int c;
    for (*size = 0; (c = getc(in)) != EOF; ++*size)
        printf("%s%d,", *size % 32 ? "" : "\n", c);
    printf("0\n};\n\n");
    fclose(in);
    return 0;
}

int main(int argc, char **argv)
{
    static long sizes[256];
    printf("#include \"base/embedded.h\"\n\n");
    for (int i = 1; i < argc && i < 256; i++)
        if (embed(argv[i], i, &sizes[i]))
            return 1;
    printf("const struct embedded embedded_files[] = {\n");
    for (int i = 1; i < argc && i < 256; i++) {
        const char *slash = strrchr(argv[i], '/');
        printf("    { \"%s\", (const char *)file_%d, %ld },\n", slash ? slash + 1 : argv[i], i,
               sizes[i]);
    }
    printf("    { 0 }\n};\n");
    return 0;
}
