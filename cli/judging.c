/* judging.c - loads truth and class sets, and prints errors by class. */
#include "eval.h"

#include <math.h>
#include <stdlib.h>

/* --- inputs ----------------------------------------------------------------------------------- */

int load_judging(cli_run *cli, kf_truth **truth, kf_class_set **set) {
  const struct judge_args *j = &cli->args.judge;
  if (!j->truth) TRY(need(cli, "ids truth-classes", "--truth FILE"));
  kf_truth_options options = {.classes = j->truth_classes, .ids = j->ids};
  if (j->truth) {
    TRY(own_truth(cli, kf_truth_load(cli->ctx, j->truth, &options, truth), truth));
  }
  if (!j->class_set) return EXIT_OK;
  return own_class_set(cli, kf_class_set_load(cli->ctx, j->class_set, set), set);
}

/* --- JSON ------------------------------------------------------------------------------------- */

void print_json_share(cli_json *j, const char *name, uint64_t hits, uint64_t n, int known) {
  char low_name[40], high_name[40];
  snprintf(low_name, sizeof low_name, "%s_low", name);
  snprintf(high_name, sizeof high_name, "%s_high", name);
  double low = (double)NAN, high = (double)NAN; /* null */
  if (known) kf_interval95(hits, n, &low, &high);
  jw_real(j, name, known ? (double)hits / (double)n : (double)NAN);
  jw_real(j, low_name, low);
  jw_real(j, high_name, high);
}

void print_json_hits(cli_json *j, const char *name, uint64_t top1, uint64_t top5, uint64_t n,
                     int known) {
  char key[32];
  snprintf(key, sizeof key, "%s%stop1", name, *name ? "_" : "");
  print_json_share(j, key, top1, n, known);
  snprintf(key, sizeof key, "%s%stop5", name, *name ? "_" : "");
  print_json_share(j, key, top5, n, known);
}

static void print_json_class(cli_json *j, const char *key, const kf_model *model, int32_t class) {
  jw_class(j, key, kf_model_class_name(model, (uint32_t) class), class);
}

static void print_model_class(FILE *file, const kf_model *model, const kf_class_names *names,
                              int32_t class) {
  uint32_t k = (uint32_t) class;
  const char *name = kf_class_names_of(names, kf_model_class_name(model, k), k);
  if (name)
    print_escaped(file, name);
  else
    fprintf(file, "%d", class);
}

/* --- the worst classes ------------------------------------------------------------------------ */

enum { SHOWN = SHOWN_WRONG };

typedef struct ranked {
  uint32_t class;
  const kf_class_result *result;
} ranked;

/* Lower accuracy comes first, then more rows, then the lower number. */
static int comes_before(const ranked *x, const ranked *y) {
  double p = (double)x->result->top1 * (double)y->result->n;
  double q = (double)y->result->top1 * (double)x->result->n;
  if (p < q || p > q) return p < q;
  if (x->result->n != y->result->n) return x->result->n > y->result->n;
  return x->class < y->class;
}

/* The worst classes that have rows; returns how many are listed. */
static size_t worst_classes(const kf_analysis *analysis, ranked list[SHOWN]) {
  size_t n = 0;
  for (uint32_t k = 0; k < analysis->n_classes; k++) {
    ranked one = {k, &analysis->classes[k]};
    if (!one.result->n || (n == SHOWN && !comes_before(&one, &list[n - 1]))) continue;
    size_t at = n < SHOWN ? n++ : n - 1;
    for (; at > 0 && comes_before(&one, &list[at - 1]); at--) list[at] = list[at - 1];
    list[at] = one;
  }
  return n;
}

static size_t shown_confusions(const kf_analysis *analysis) {
  return analysis->n_confusions < SHOWN ? analysis->n_confusions : SHOWN;
}

/* --- text ------------------------------------------------------------------------------------- */

void print_worst(const kf_model *model, const kf_class_names *names, const kf_analysis *analysis) {
  ranked worst[SHOWN];
  size_t n = worst_classes(analysis, worst);
  printf("\nclasses with the lowest top-1:\n  %9s %9s %9s %9s  class\n", "top-1", "top-5", "rows",
         "answers");
  for (size_t i = 0; i < n; i++) {
    const kf_class_result *r = worst[i].result;
    printf("  %9s %9s %9s %9s  ", show_percent(r->top1, r->n).text,
           show_percent(r->top5, r->n).text, show_count(r->n).text, show_count(r->answers).text);
    print_model_class(stdout, model, names, (int32_t)worst[i].class);
    putchar('\n');
  }
}

void print_confusions(const kf_model *model, const kf_class_names *names,
                      const kf_analysis *analysis) {
  if (!analysis->n_confusions) return;
  printf("\nmost frequent confusions:\n  %9s  class taken for\n", "rows");
  for (size_t i = 0; i < shown_confusions(analysis); i++) {
    const kf_confusion *c = &analysis->confusions[i];
    printf("  %9s  ", show_count(c->n).text);
    print_model_class(stdout, model, names, c->truth);
    fputs("  ->  ", stdout);
    print_model_class(stdout, model, names, c->answer);
    putchar('\n');
  }
}

/* Accuracy in a bin, and in it and all higher bins. */
static void print_margins(const kf_analysis *analysis) {
  printf("\nmargin between the two best scores:\n  %9s %9s %9s %9s  from there on\n", "from", "to",
         "rows", "top-1");
  uint64_t n = analysis->totals.n, top1 = analysis->totals.top1;
  for (size_t i = 0; i < analysis->n_bins; i++) {
    const kf_margin_bin *b = &analysis->bins[i];
    printf("  %9.5f %9.5f %9s %9s  %s\n", b->low, b->high, show_count(b->n).text,
           show_percent(b->top1, b->n).text, show_percent(top1, n).text);
    n -= b->n;
    top1 -= b->top1;
  }
}

void print_errors(const kf_model *model, const kf_analysis *analysis) {
  print_worst(model, NULL, analysis);
  print_confusions(model, NULL, analysis);
  print_margins(analysis);
}

static int by_margin(const void *a, const void *b) {
  const kf_mistake *x = a, *y = b;
  if (x->margin < y->margin || x->margin > y->margin) return x->margin > y->margin ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

int read_wrong(cli_run *cli, const kf_data *data, kf_analysis *analysis, wrong_rows *out) {
  const char *id;
  qsort(analysis->mistakes, analysis->n_mistakes, sizeof *analysis->mistakes, by_margin);
  for (; out->n < SHOWN && out->n < analysis->n_mistakes; out->n++) {
    TRY(read_id(cli, data, analysis->mistakes[out->n].row, &id));
    out->ids[out->n] = own_format(cli, "%s", id);
    if (!out->ids[out->n]) return fail(cli, KF_ERR_MEM);
  }
  return EXIT_OK;
}

void print_wrong(const kf_model *model, const kf_class_names *names, const kf_analysis *analysis,
                 const wrong_rows *rows) {
  if (rows->n) puts("\nwrong by the widest margin:");
  for (size_t i = 0; i < rows->n; i++) {
    fputs("  ", stdout);
    print_escaped(stdout, rows->ids[i]);
    fputs("  ", stdout);
    print_model_class(stdout, model, names, analysis->mistakes[i].truth);
    fputs("  ->  ", stdout);
    print_model_class(stdout, model, names, analysis->mistakes[i].answer);
    putchar('\n');
  }
}

static void print_json_worst(cli_json *j, const kf_model *model, const kf_analysis *analysis) {
  ranked worst[SHOWN];
  size_t n = worst_classes(analysis, worst);
  jw_open(j, "worst_classes", '[');
  for (size_t i = 0; i < n; i++) {
    jw_open(j, NULL, '{');
    print_json_class(j, "class", model, (int32_t)worst[i].class);
    jw_count(j, "n", worst[i].result->n);
    jw_count(j, "top1", worst[i].result->top1);
    jw_count(j, "top5", worst[i].result->top5);
    jw_count(j, "answers", worst[i].result->answers);
    jw_close(j, "}");
  }
  jw_close(j, "]");
}

void print_json_errors(cli_json *j, const kf_model *model, const kf_analysis *analysis) {
  print_json_worst(j, model, analysis);
  jw_open(j, "confusions", '[');
  for (size_t i = 0; i < shown_confusions(analysis); i++) {
    jw_open(j, NULL, '{');
    print_json_class(j, "class", model, analysis->confusions[i].truth);
    print_json_class(j, "answer", model, analysis->confusions[i].answer);
    jw_count(j, "n", analysis->confusions[i].n);
    jw_close(j, "}");
  }
  jw_close(j, "]");
  jw_open(j, "margins", '[');
  for (size_t i = 0; i < analysis->n_bins; i++) {
    jw_open(j, NULL, '{');
    jw_real(j, "low", analysis->bins[i].low);
    jw_real(j, "high", analysis->bins[i].high);
    jw_count(j, "n", analysis->bins[i].n);
    jw_count(j, "top1", analysis->bins[i].top1);
    jw_close(j, "}");
  }
  jw_close(j, "]");
}

/* --- tables ----------------------------------------------------------------------------------- */

typedef struct judged {
  const kf_model *model;
  const kf_data *data;
  const kf_analysis *analysis;
} judged;

static void put_model_class(sink *s, const kf_model *model, int32_t class) {
  sink_class(s, kf_model_class_name(model, (uint32_t) class), class);
}

static int write_classes(const judged *of, sink *s) {
  sink_columns(s, "class rows top1 top5 answers");
  TRY(sink_end_header(s));
  for (uint32_t k = 0; k < of->analysis->n_classes; k++) {
    const kf_class_result *r = &of->analysis->classes[k];
    put_model_class(s, of->model, (int32_t)k);
    sink_number(s, (int64_t)r->n);
    sink_number(s, (int64_t)r->top1);
    sink_number(s, (int64_t)r->top5);
    sink_number(s, (int64_t)r->answers);
    TRY(sink_end_row(s));
  }
  return EXIT_OK;
}

static int write_confusions(const judged *of, sink *s) {
  sink_columns(s, "rows class answer");
  TRY(sink_end_header(s));
  for (size_t i = 0; i < of->analysis->n_confusions; i++) {
    const kf_confusion *c = &of->analysis->confusions[i];
    sink_number(s, (int64_t)c->n);
    put_model_class(s, of->model, c->truth);
    put_model_class(s, of->model, c->answer);
    TRY(sink_end_row(s));
  }
  return EXIT_OK;
}

static int write_wrong(const judged *of, sink *s) {
  int ids = kf_data_has_ids(of->data), probabilities = of->analysis->calibration != NULL;
  sink_column(s, "row", KF_COLUMN_INTEGER);
  if (ids) sink_column(s, "id", KF_COLUMN_TEXT);
  sink_column(s, "truth", KF_COLUMN_TEXT);
  sink_column(s, "answer", KF_COLUMN_TEXT);
  sink_column(s, "score", KF_COLUMN_REAL);
  sink_column(s, "margin", KF_COLUMN_REAL);
  if (probabilities) sink_column(s, "probability", KF_COLUMN_REAL);
  if (probabilities) sink_column(s, "truth_probability", KF_COLUMN_REAL);
  TRY(sink_end_header(s));
  for (size_t i = 0; i < of->analysis->n_mistakes; i++) {
    const kf_mistake *m = &of->analysis->mistakes[i];
    const char *id;
    TRY(read_id(s->cli, of->data, m->row, &id));
    sink_number(s, (int64_t)m->row);
    if (ids) sink_text(s, id);
    put_model_class(s, of->model, m->truth);
    put_model_class(s, of->model, m->answer);
    sink_real(s, 6, m->score);
    sink_real(s, 6, m->margin);
    if (probabilities) sink_real(s, 6, m->probability);
    if (probabilities) sink_real(s, 6, m->right_probability);
    TRY(sink_end_row(s));
  }
  return EXIT_OK;
}

int write_tables(cli_run *cli, const kf_model *model, const kf_data *data,
                 const kf_analysis *analysis) {
  const struct error_args *e = &cli->args.errors;
  const struct {
    const char *path;
    int (*write)(const judged *of, sink *s);
  } tables[] = {
      {e->per_class, write_classes}, {e->confusions, write_confusions}, {e->wrong, write_wrong}};
  sink *sinks[COUNT_OF(tables)] = {NULL};
  judged of = {model, data, analysis};
  for (size_t i = 0; i < COUNT_OF(tables); i++) {
    const char *path = tables[i].path;
    if (!path) continue;
    TRY(sink_open(cli, path, format_of(cli, path), &sinks[i]));
    TRY(tables[i].write(&of, sinks[i]));
  }
  return sinks_finish(cli, sinks, COUNT_OF(sinks));
}
