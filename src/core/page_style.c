#include "core/page_style.h"

#include "core/catalog.h"

struct text page_style(void)
{
    return catalog_embedded("page.css");
}
