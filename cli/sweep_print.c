/* sweep_print.c - the tables of a sweep, as text, CSV or JSON. */
#include "sweep.h"

#include <math.h>

enum { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON }; /* as table_formats */
const char *const table_formats[] = {"text", "csv", "json", NULL};
const char *const sweep_metrics[] = {"cosine", "euclidean", "both", NULL};
const char *const sweep_centres[] = {"none", "mean", "modality", "all", NULL};

static int named_format(const cli_args *a) { return a->json ? FORMAT_JSON : a->sweep.format; }

static int table_format(const cli_run *cli) {
  sink_format format = is_stdout(cli->args.output) ? SINK_TEXT : format_of(cli, cli->args.output);
  return format == SINK_CSV    ? FORMAT_CSV
         : format == SINK_JSON ? FORMAT_JSON
                               : named_format(&cli->args);
}

int check_table(cli_run *cli) {
  const char *path = cli->args.output;
  TRY(check_format(cli, path, "the table",
                   FORMAT(SINK_TEXT) | FORMAT(SINK_CSV) | FORMAT(SINK_JSON)));
  if (table_format(cli) == named_format(&cli->args)) return EXIT_OK;
  return refuse(cli, "format json", "%s, whose ending decides the format", path);
}

int write_table(cli_run *cli, const void *result, const table_fn print[3], uint64_t n,
                const char *one, const char *many) {
  const char *path = cli->args.output;
  int format = table_format(cli);
  sink *out;
  TRY(sink_open(cli, path, format == FORMAT_CSV ? SINK_CSV : SINK_TEXT, &out));
  progress_clear(&cli->progress);
  print[format](result, out);
  TRY(sink_finish(out));
  if (!is_stdout(path)) say_written(cli, path, "%s", show_counted(n, one, many).text);
  return EXIT_OK;
}

static const char *metric_of(const kf_sweep_cell *c) { return sweep_metrics[c->metric - 1]; }

static const char *text_of(const kf_sweep_cell *c) {
  if (c->fused) return "fused";
  return c->text ? sweep_centres[c->text - KF_CENTRE_NONE] : "";
}

static shown classifier_of(const kf_sweep_cell *c) {
  shown s;
  if (c->fused)
    snprintf(s.text, sizeof s.text, "text and prototypes together");
  else if (c->text)
    snprintf(s.text, sizeof s.text, "text (centring: %s)", text_of(c));
  else if (c->k)
    snprintf(s.text, sizeof s.text, "%u-NN", c->k);
  else
    snprintf(s.text, sizeof s.text, "prototypes");
  return s;
}

/* Text in the original space is a line of every table of text, not a separate table. */
static int raw_text(const kf_sweep_cell *c) { return c->raw && c->text; }

static int same_table(const kf_sweep_cell *a, const kf_sweep_cell *b) {
  return a->set == b->set && a->metric == b->metric && a->k == b->k && a->fused == b->fused &&
         (a->text == b->text || (raw_text(a) && b->text));
}

static shown short_percent(uint64_t hits, uint64_t n) {
  shown s;
  snprintf(s.text, sizeof s.text, "%.2f", n ? 100 * (double)hits / (double)n : 0);
  return s;
}

static void print_title(const sweep_table *t, FILE *file, const kf_sweep_cell *c, const char *top) {
  fprintf(file, "%s, %s, %s", classifier_of(c).text, metric_of(c), top);
  if (t->sets->n) {
    fprintf(file, ", classes of ");
    print_plain(file, t->sets->items[c->set]);
  }
  fprintf(file, ": per cent of %s", show_counted(c->n, "row", "rows").text);
  if (t->sweep->folds) fprintf(file, " in %u folds", t->sweep->folds);
  if (t->leave_one_out) fprintf(file, ", left out one by one");
  fprintf(file, "\n");
}

/* Whether no other cell of its table has more hits. */
static int is_best(const sweep_table *t, const kf_sweep_cell *cell, int top5) {
  for (size_t i = 0; i < t->sweep->n_cells; i++) {
    const kf_sweep_cell *c = &t->sweep->cells[i];
    int together = same_table(c, cell) || same_table(cell, c);
    if (together && (top5 ? c->top5 > cell->top5 : c->top1 > cell->top1)) return 0;
  }
  return 1;
}

static void print_line(const sweep_table *t, FILE *file, const kf_sweep_cell *cells, int top5) {
  if (cells->raw)
    fprintf(file, "%10s", "raw");
  else
    fprintf(file, "%10s", show_relative(cells->relative, 1).text);
  size_t n = cells->raw ? 1 : t->n_dims;
  for (size_t d = 0; d < n; d++) {
    shown value = short_percent(top5 ? cells[d].top5 : cells[d].top1, cells[d].n);
    char marked[80];
    snprintf(marked, sizeof marked, "%s%s", is_best(t, &cells[d], top5) ? "*" : "", value.text);
    fprintf(file, "%8s", marked);
  }
  if (cells->fused) fprintf(file, "   alpha %s", show_real(cells->alpha).text);
  fprintf(file, "\n");
}

static void print_table(const sweep_table *t, FILE *file, const kf_sweep_cell *first, int top5) {
  const kf_sweep *s = t->sweep;
  print_title(t, file, first, top5 ? "top-5" : "top-1");
  fprintf(file, "%10s", "lambda");
  for (size_t d = 0; d < t->n_dims; d++) fprintf(file, " %7u", t->dims[d]);
  fprintf(file, "\n");
  for (size_t i = 0; i < s->n_cells; i++) {
    const kf_sweep_cell *c = &s->cells[i];
    if (same_table(c, first)) print_line(t, file, c, top5);
    if (!c->raw) i += t->n_dims - 1; /* the rest of a line, whatever its table */
  }
}

static void print_text(const void *table, sink *out) {
  const sweep_table *t = table;
  const kf_sweep *s = t->sweep;
  FILE *file = out->file;
  int tables = 0;
  for (size_t i = 0; i < s->n_cells; i++) {
    const kf_sweep_cell *c = &s->cells[i];
    int seen = raw_text(c);
    for (size_t before = 0; before < i && !seen; before++)
      seen = !raw_text(&s->cells[before]) && same_table(&s->cells[before], c);
    if (seen) continue;
    for (int top5 = 0; top5 < (c->k ? 1 : 2); top5++) {
      if (tables++) fprintf(file, "\n");
      print_table(t, file, c, top5);
    }
  }
  fprintf(
      file,
      "\nlambda in multiples of the mean eigenvalue of S_w, %s; columns are dimensions\n"
      "* the best of its table, on the rows that it is measured on: new rows do a little worse\n",
      show_real(s->mean_eigenvalue).text);
}

static const char *set_of(const sweep_table *t, const kf_sweep_cell *c) {
  return t->sets->n ? t->sets->items[c->set] : "";
}

static void print_csv(const void *table, sink *out) {
  const sweep_table *t = table;
  FILE *file = out->file;
  sink_columns(
      out,
      "set metric space lambda relative dim k n top1 top5 top1_share top5_share text alpha best");
  sink_end_header(out);
  for (size_t i = 0; i < t->sweep->n_cells; i++) {
    const kf_sweep_cell *c = &t->sweep->cells[i];
    double n = c->n ? (double)c->n : 1;
    sink_text(out, set_of(t, c));
    fprintf(file, ",%s,%s,%.17g,%.17g,%u,%u,%llu,%llu,%llu,%.6f,%.6f,%s,", metric_of(c),
            c->raw ? "raw" : "koofu", c->lambda, c->relative, c->dim, c->k,
            (unsigned long long)c->n, (unsigned long long)c->top1, (unsigned long long)c->top5,
            (double)c->top1 / n, (double)c->top5 / n, text_of(c));
    if (c->fused) fprintf(file, "%.17g", c->alpha);
    fprintf(file, ",%d", is_best(t, c, 0));
    sink_end_row(out);
  }
}

static void print_json_cell(const sweep_table *t, cli_json *w, const kf_sweep_cell *c) {
  double n = c->n ? (double)c->n : 1;
  jw_open(w, NULL, '{');
  if (t->sets->n) jw_text(w, "set", set_of(t, c));
  jw_text(w, "metric", metric_of(c));
  jw_text(w, "space", c->raw ? "raw" : "koofu");
  jw_real(w, "lambda", c->raw ? (double)NAN : c->lambda);
  jw_real(w, "relative", c->raw ? (double)NAN : c->relative);
  jw_count(w, "dim", c->dim);
  jw_count_if(w, "k", c->k, c->k != 0);
  jw_text(w, "text", c->text || c->fused ? text_of(c) : NULL);
  if (c->fused) jw_real(w, "alpha", c->alpha);
  jw_count(w, "n", c->n);
  jw_real(w, "top1", (double)c->top1 / n);
  jw_real(w, "top5", (double)c->top5 / n);
  jw_flag(w, "best", is_best(t, c, 0));
  jw_close(w, "}");
}

static void print_json(const void *table, sink *out) {
  const sweep_table *t = table;
  const kf_sweep *s = t->sweep;
  cli_json w = jw_begin(out->file);
  jw_real(&w, "mean_eigenvalue", s->mean_eigenvalue);
  jw_count_if(&w, "folds", s->folds, s->folds != 0);
  jw_count(&w, "rows", s->counts.rows);
  jw_count(&w, "n_absent", s->counts.n_absent);
  jw_count(&w, "n_excluded", s->counts.n_excluded);
  jw_count(&w, "n_unlabelled", s->counts.n_unlabelled);
  jw_count(&w, "n_bad", s->counts.n_bad);
  jw_open(&w, "cells", '[');
  for (size_t i = 0; i < s->n_cells; i++) print_json_cell(t, &w, &s->cells[i]);
  jw_close(&w, "]");
  jw_end(&w);
}

const table_fn sweep_form[3] = {print_text, print_csv, print_json};
