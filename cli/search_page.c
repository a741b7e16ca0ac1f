/* search_page.c - keeps answers of 'koofu search' for a page (--html). */
#include "search.h"

#include <string.h>

enum { MOST_ROWS = 1000 }; /* on the page, or those of the first query */

int search_page_start(cli_run *cli, search_page *page, uint64_t n, uint32_t k) {
  page->room = MOST_ROWS / k > 1 ? MOST_ROWS / k : 1;
  if (page->room > n) page->room = n;
  page->names = own_memory(cli, page->room, sizeof *page->names);
  page->rows = own_memory(cli, page->room, k * sizeof *page->rows);
  page->scores = own_memory(cli, page->room, k * sizeof *page->scores);
  return page->names && page->rows && page->scores ? EXIT_OK : fail(cli, KF_ERR_MEM);
}

int search_page_add(cli_run *cli, search_page *page, const search_answer *a) {
  if (page->n >= page->room) return EXIT_OK;
  page->names[page->n] = a->id ? own_format(cli, "%s", a->id)
                               : own_format(cli, "Query %llu", (unsigned long long)a->query);
  if (!page->names[page->n]) return fail(cli, KF_ERR_MEM);
  memcpy(page->rows + page->n * a->k, a->rows, a->k * sizeof *page->rows);
  memcpy(page->scores + page->n * a->k, a->scores, a->k * sizeof *page->scores);
  page->n++;
  return EXIT_OK;
}

int search_page_write(cli_run *cli, search_page *page, const kf_gallery *gallery, uint32_t k,
                      uint64_t queries, const char *mean) {
  const cli_args *a = &cli->args;
  char note[4200];
  snprintf(note, sizeof note, "The mean of %s is subtracted from text.", mean ? mean : "");
  kf_search_page_options options = {.title = a->report.title,
                                    .name = a->operands.items[0],
                                    .note = mean ? note : NULL,
                                    .pictures = a->search.pictures,
                                    .queries = queries};
  return result_of(cli,
                   kf_search_page_write(cli->ctx, gallery, page->names, page->n, k, page->rows,
                                        page->scores, &options, a->search.html, &page->result));
}

void search_page_say(cli_run *cli, const search_page *page, uint64_t queries) {
  char first[sizeof(shown) + 16] = "";
  if (page->n < queries)
    snprintf(first, sizeof first, "the first %s of ", show_count(page->n).text);
  say_written(cli, cli->args.search.html, "a page of %s%s, with %s (%s)", first,
              show_counted(queries, "query", "queries").text,
              show_counted(page->result.thumbnails, "picture", "pictures").text,
              show_bytes(page->result.bytes).text);
}
