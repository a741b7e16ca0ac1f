/* search_unique.c - koofu search --unique: groups of near duplicates. */
#include "search.h"

/* A gallery, or the rows of a data set as one. */
static int open_gallery(cli_run *cli, kf_gallery **out) {
  const char *path = cli->args.operands.items[0];
  int found = 0;
  if (cli->args.operands.n == 1) TRY(check_kind(cli, path, "gallery", &found));
  if (found) return load_gallery(cli, path, UINT64_MAX, out);
  kf_data *data = NULL;
  kf_gallery_options options = {.metric = (kf_metric)cli->args.metric};
  TRY(open_data(cli, 0, LABELS_IGNORED, &data));
  return own_gallery(cli, kf_gallery_new(cli->ctx, data, NULL, &options, out), out);
}

/* A line for each row of a group, groups in the order of their first rows. */
static int put_groups(sink *s, const kf_gallery *g, const uint64_t *first,
                      const unsigned char *grouped, uint64_t *number) {
  uint64_t n = 0, rows = kf_gallery_rows(g);
  sink_columns(s, kf_gallery_id(g, 0) ? "group id" : "group row");
  TRY(sink_end_header(s));
  for (uint64_t i = 0; i < rows; i++)
    if (grouped[i] && first[i] == i) number[i] = n++;
  for (uint64_t i = 0; i < rows; i++) {
    if (!grouped[i]) continue;
    sink_number(s, (int64_t)number[first[i]]);
    sink_row(s, kf_gallery_id(g, i), i);
    TRY(sink_end_row(s));
  }
  return EXIT_OK;
}

static int put_kept(sink *s, const kf_gallery *g, const uint64_t *first) {
  for (uint64_t i = 0; i < kf_gallery_rows(g); i++) {
    if (first[i] != i) continue;
    sink_row(s, kf_gallery_id(g, i), i);
    TRY(sink_end_row(s));
  }
  return EXIT_OK;
}

/* Writes both files or neither; the rows kept before anything is printed. */
static int write_outputs(cli_run *cli, const kf_gallery *g, const uint64_t *first,
                         const unsigned char *grouped, uint64_t *number) {
  sink *kept = NULL, *groups = NULL;
  const char *path = cli->args.output;
  int printed = is_stdout(path);
  if (!printed || !cli->args.json)
    TRY(sink_open(cli, path, printed ? SINK_TEXT : format_of(cli, path), &groups));
  if (cli->args.search.keep) {
    TRY(sink_open(cli, cli->args.search.keep, SINK_TEXT, &kept));
    TRY(put_kept(kept, g, first));
  }
  if (kept && printed) TRY(sink_finish(kept));
  if (groups) TRY(put_groups(groups, g, first, grouped, number));
  if (printed) return groups ? sink_finish(groups) : EXIT_OK;
  return sinks_finish(cli, (sink *const[]){kept, groups}, 2);
}

static void print_found(const kf_gallery *g, double limit, const kf_unique *found) {
  cli_json j = jw_begin(stdout);
  jw_count(&j, "rows", kf_gallery_rows(g));
  jw_text(&j, "metric", kf_metric_name(kf_gallery_metric(g)));
  jw_real(&j, "limit", limit);
  jw_count(&j, "groups", found->groups);
  jw_count(&j, "copies", found->copies);
  jw_count(&j, "pairs", found->pairs);
  jw_end(&j);
}

int search_unique(cli_run *cli, double limit) {
  kf_gallery *g;
  kf_unique found;
  TRY(open_gallery(cli, &g));
  uint64_t rows = kf_gallery_rows(g);
  uint64_t *first = own_memory(cli, rows, sizeof *first);
  uint64_t *number = own_memory(cli, rows, sizeof *number);
  unsigned char *grouped = own_memory(cli, rows, 1);
  if (!first || !number || !grouped) return fail(cli, KF_ERR_MEM);
  TRY(result_of(cli, kf_gallery_unique(cli->ctx, g, limit, first, &found)));
  for (uint64_t i = 0; i < rows; i++)
    if (first[i] != i) grouped[i] = grouped[first[i]] = 1;
  TRY(write_outputs(cli, g, first, grouped, number));
  if (cli->args.json) print_found(g, limit, &found);
  say(cli, "%s with %s besides the first of each; without these, %s of %s remain",
      show_counted(found.groups, "group", "groups").text,
      show_counted(found.copies, "row", "rows").text, show_count(rows - found.copies).text,
      show_counted(rows, "row", "rows").text);
  return EXIT_OK;
}
