/* section_summary.c - the top of the page: facts, one sentence about the gain, and a table. */
#include "report/sections.h"

/* --- facts ------------------------------------------------------------------------------------ */

static void put_fact(kf_string *out, const char *name, const char *value, const char *detail) {
  kf_string_addf(out, "<div><dt>%s</dt><dd>%s", name, value);
  if (detail != NULL) {
    kf_put(out, "<bdi class=\"soft\">");
    kf_put_text(out, detail, 80);
    kf_put(out, "</bdi>");
  }
  kf_put(out, "</dd></div>\n");
}

static uint64_t test_rows(const kf_page *c) {
  if (c->eval != NULL) return c->eval->n;
  if (c->analysis != NULL && !c->left_out) return c->analysis->totals.n;
  return c->sweep != NULL && c->sweep->folds == 0 ? c->sweep->counts.n : 0;
}

static void put_model_facts(kf_string *out, const kf_model *model) {
  double mean = kf_model_mean_eigenvalue(model), lambda = kf_model_lambda(model);
  put_fact(out, "classes", kf_show_count(kf_model_classes(model)).text, NULL);
  kf_shown value = kf_showf("%u → %u", kf_model_dim_in(model), kf_model_dim_out(model));
  put_fact(out, "dimensions", value.text, NULL);
  value = kf_show_real(lambda);
  if (mean > 0) value = kf_showf("%.28s = %.28s", value.text, kf_show_times(lambda / mean).text);
  put_fact(out, "λ", value.text, NULL);
  if (kf_model_fused(model)) put_fact(out, "α", kf_show_real(kf_model_alpha(model)).text, NULL);
}

static void put_facts(kf_string *out, const kf_page *c) {
  kf_put(out, "<dl class=\"facts\">\n");
  if (c->train_rows > 0)
    put_fact(out, "training rows", kf_show_count(c->train_rows).text, c->train);
  if (test_rows(c) > 0) put_fact(out, "test rows", kf_show_count(test_rows(c)).text, c->test);
  if (c->model != NULL) put_model_facts(out, c->model);
  put_fact(out, "koofu", KF_VERSION, NULL);
  kf_put(out, "</dl>\n");
}

/* --- results ---------------------------------------------------------------------------------- */

typedef struct line {
  kf_part by;
  bool raw;
  uint32_t k, dim;
  uint64_t n, top1, top5;
  bool last; /* of the lines with the same classifier */
} line;

#define MAX_LINES 22

typedef struct table {
  line lines[MAX_LINES];
  size_t n;
} table;

static void add_line(table *t, line l) {
  if (t->n < MAX_LINES && l.n > 0) t->lines[t->n++] = l;
}

static void add_cell(table *t, const kf_sweep_cell *cell, kf_part by) {
  if (cell != NULL)
    add_line(t, (line){by, cell->raw != 0, cell->k, cell->dim, cell->n, cell->top1, cell->top5,
                       cell->raw == 0});
}

/* From the evaluation of a part of the model, or else from the sweep. */
static void add_part(table *t, const kf_page *c, const kf_setting *setting,
                     const kf_eval_result *part, kf_part by) {
  bool raw = by == KF_PART_TEXT;
  if (part != NULL && c->model != NULL) {
    uint32_t dim = raw ? kf_model_dim_in(c->model) : kf_model_dim_out(c->model);
    add_line(t, (line){by, raw, 0, dim, part->n, part->top1, part->top5, !raw});
  } else if (setting != NULL) {
    kf_setting here = kf_setting_by(setting, by);
    add_cell(t, kf_sweep_find(c, &here, raw, 0), by);
  }
}

/* Text in the original space and mapped, then text and prototypes. */
static void add_text(table *t, const kf_page *c, const kf_setting *setting) {
  size_t before = t->n;
  add_part(t, c, setting, c->text, KF_PART_TEXT);
  if (setting != NULL) {
    kf_setting here = kf_setting_by(setting, KF_PART_TEXT);
    add_cell(t, kf_sweep_find(c, &here, false, 0), KF_PART_TEXT);
  }
  add_part(t, c, setting, c->fused, KF_PART_FUSED);
  line *both =
      t->n > before ? &t->lines[t->n - 1] : NULL; /* its dimensions include those of the text */
  if (both != NULL && both->by == KF_PART_FUSED && t->lines[before].raw && both->dim > 0)
    both->dim += t->lines[before].dim;
  for (size_t i = before; i < t->n; i++) t->lines[i].last = i + 1 == t->n;
}

/* Prototypes and text come from the evaluation of the model, or else from the sweep; neighbours
 * from the sweep. Raw and mapped lines alternate. */
static void collect(const kf_page *c, table *t) {
  const kf_eval_result *e = c->eval;
  t->n = 0;
  if (e != NULL && e->n > 0) {
    uint32_t in = c->model != NULL ? kf_model_dim_in(c->model) : 0;
    uint32_t out = c->model != NULL ? kf_model_dim_out(c->model) : 0;
    add_line(t, (line){KF_PART_IMAGES, true, 0, in, e->n, e->raw_top1, e->raw_top5, false});
    add_line(t, (line){KF_PART_IMAGES, false, 0, out, e->n, e->top1, e->top5, true});
  }
  kf_setting setting;
  bool swept = kf_sweep_setting(c, &setting), evaluated = t->n > 0;
  if (swept && !evaluated) {
    add_cell(t, kf_sweep_find(c, &setting, true, 0), KF_PART_IMAGES);
    add_cell(t, kf_sweep_find(c, &setting, false, 0), KF_PART_IMAGES);
  }
  add_text(t, c, swept ? &setting : NULL);
  uint32_t ks[8];
  size_t n_ks = swept ? kf_sweep_ks(c->sweep, ks, 8) : 0;
  for (size_t i = 0; i < n_ks; i++) {
    if (ks[i] == 0) continue;
    add_cell(t, kf_sweep_find(c, &setting, true, ks[i]), KF_PART_IMAGES);
    add_cell(t, kf_sweep_find(c, &setting, false, ks[i]), KF_PART_IMAGES);
  }
}

/* A cell of the table: the share as a dot on its interval. */
static void put_bar(kf_string *out, const line *l, const kf_scale *x) {
  double low = 0, high = 1;
  unsigned colour = l->by == KF_PART_FUSED ? 1 : l->by == KF_PART_TEXT ? 2 : l->raw ? 5 : 0;
  kf_interval95(l->top1, l->n, &low, &high);
  kf_put(out, "<td class=\"bar\"><svg viewBox=\"0 0 180 14\" aria-hidden=\"true\">");
  kf_svg_line(out, "grid", x->from, 7, x->to, 7);
  kf_string_addf(out, "<line class=\"range s%u\" y1=\"7\" y2=\"7\" x1=\"%s\" x2=\"%s\"/>", colour,
                 kf_svg_number(kf_scale_at(x, low)).text, kf_svg_number(kf_scale_at(x, high)).text);
  kf_string_addf(out, "<circle class=\"dot s%u\" cy=\"7\" r=\"4\" cx=\"%s\"/></svg></td>", colour,
                 kf_svg_number(kf_scale_at(x, kf_share(l->top1, l->n))).text);
}

static void put_line(kf_string *out, const line *l, const kf_scale *x) {
  kf_string_addf(out, "<tr class=\"%s\"><th scope=\"row\">%s <span>%s</span></th>",
                 l->last ? "mapped" : "raw", l->raw ? "raw" : "Koo-Fu",
                 l->by == KF_PART_FUSED  ? "prototypes and text"
                 : l->by == KF_PART_TEXT ? "text (zero-shot)"
                                         : kf_show_classifier(l->k).text);
  if (l->dim > 0)
    kf_string_addf(out, "<td>%s</td>", kf_show_count(l->dim).text);
  else
    kf_put(out, "<td>–</td>");
  kf_string_addf(out, "<td>%s<small>%s</small></td>", kf_show_percent(l->top1, l->n).text,
                 kf_show_interval(l->top1, l->n).text);
  put_bar(out, l, x);
  kf_string_addf(out, "<td>%s<small>%s</small></td></tr>\n", kf_show_percent(l->top5, l->n).text,
                 kf_show_interval(l->top5, l->n).text);
}

static void put_table(kf_string *out, const table *t) {
  const line *lines = t->lines;
  kf_scale x = {1, 0, 6, 174, false};
  for (size_t i = 0; i < t->n; i++) {
    double low = 0, high = 1;
    kf_interval95(lines[i].top1, lines[i].n, &low, &high);
    x.low = fmin(x.low, low);
    x.high = fmax(x.high, high);
  }
  kf_scale_widen(&x);
  kf_put(out,
         "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"results\"><table "
         "class=\"results\"><thead><tr>" KF_HEAD("space") KF_HEAD("dims")
             KF_HEAD("top-1") "<td class=\"bar\"></td>" KF_HEAD("top-5") "</tr></thead><tbody>\n");
  for (size_t i = 0; i < t->n; i++) put_line(out, &lines[i], &x);
  kf_put(out, "</tbody></table></div>\n<p class=\"caption\">Small figures: 95 % intervals.</p>\n");
}

/* --- the sentence ----------------------------------------------------------------------------- */

/* The first raw line that is followed by its mapped one. */
static const line *first_pair(const table *t) {
  for (size_t i = 0; i + 1 < t->n; i++) {
    const line *one = &t->lines[i], *two = one + 1;
    if (one->by == KF_PART_IMAGES && two->by == KF_PART_IMAGES && one->raw && !two->raw &&
        one->k == two->k)
      return one;
  }
  return NULL;
}

static const line *find_line(const table *t, kf_part by, bool raw) {
  for (size_t i = 0; i < t->n; i++)
    if (t->lines[i].by == by && t->lines[i].raw == raw && t->lines[i].k == 0) return &t->lines[i];
  return NULL;
}

static bool only_folds(const kf_page *c) {
  return c->eval == NULL && c->sweep != NULL && c->sweep->folds > 0;
}

static void put_gain(kf_string *out, const kf_page *c, const line *raw) {
  const line *mapped = raw + 1;
  double gain = kf_share(mapped->top1, mapped->n) - kf_share(raw->top1, raw->n);
  kf_string_addf(out, "<p class=\"gain\">In the Koo-Fu space %s right for <b>%s</b> of %s %s, ",
                 raw->k == 0 ? "the nearest prototype is" : "neighbours are",
                 kf_show_percent(mapped->top1, mapped->n).text, kf_show_count(mapped->n).text,
                 only_folds(c) ? "held-out rows" : "test rows");
  kf_string_addf(out, "against %s in the raw space: <b>%s points %s</b>",
                 kf_show_percent(raw->top1, raw->n).text, kf_show_points(fabs(gain)).text,
                 gain < 0 ? "less" : "more");
  if (mapped->dim > 0 && mapped->dim < raw->dim)
    kf_string_addf(out, ", with %u of %u dimensions and %.0f\u202F%% of the memory", mapped->dim,
                   raw->dim, 100.0 * mapped->dim / raw->dim);
  kf_put(out, ".</p>\n");
}

/* "4.90 points more than text alone" */
static void put_more(kf_string *out, const line *both, const line *part, const char *name) {
  double gain = kf_share(both->top1, both->n) - kf_share(part->top1, part->n);
  if (both->top1 == part->top1)
    kf_string_addf(out, "<b>the same</b> as %s", name);
  else
    kf_string_addf(out, "<b>%s points %s</b> than %s", kf_show_points(fabs(gain)).text,
                   gain < 0 ? "less" : "more", name);
}

static void put_both(kf_string *out, const kf_page *c, const table *t) {
  const line *both = find_line(t, KF_PART_FUSED, false);
  const line *text = find_line(t, KF_PART_TEXT, true);
  const line *images = find_line(t, KF_PART_IMAGES, false);
  if (both == NULL) return;
  kf_string_addf(out,
                 "<p class=\"gain\">Names and pictures together are right for <b>%s</b> of %s %s",
                 kf_show_percent(both->top1, both->n).text, kf_show_count(both->n).text,
                 only_folds(c) ? "held-out rows" : "test rows");
  if (text != NULL && images != NULL && text->n == both->n && images->n == both->n) {
    kf_put(out, ": ");
    put_more(out, both, text, "names alone");
    kf_put(out, " and ");
    put_more(out, both, images, "pictures alone");
  }
  kf_put(out, ".</p>\n");
}

static void put_left_out(kf_string *out, const kf_eval_result *e) {
  if (e == NULL || e->rows == e->n) return;
  const struct {
    uint64_t n;
    const char *why;
  } parts[] = {{e->n_unlabelled, "without a label"},
               {e->n_absent, "of classes the model does not have"},
               {e->n_excluded, "without a right class in the truth"},
               {e->n_bad, "bad"}};
  kf_string_addf(out, "<p class=\"caption\">Of %s test rows, %s were left out",
                 kf_show_count(e->rows).text, kf_show_count(e->rows - e->n).text);
  const char *joint = ": ";
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (parts[i].n == 0) continue;
    kf_string_addf(out, "%s%s %s", joint, kf_show_count(parts[i].n).text, parts[i].why);
    joint = ", ";
  }
  kf_put(out, ".</p>\n");
}

/* Whether the model has as many dimensions as were chosen, and fewer than all. */
static bool fewer_chosen(const kf_page *c) {
  return c->dim != NULL && c->model != NULL && c->dim->dim < c->dim->n_points &&
         kf_model_dim_out(c->model) == c->dim->dim;
}

static void put_folds(kf_string *out, const kf_page *c) {
  kf_string_addf(
      out,
      "<p class=\"caption\">Rows were held out in %u folds, so each model had fewer rows "
      "than with leave-one-out, and figures differ from those of rows left out. %s chosen on the "
      "same rows, which is slightly "
      "optimistic.</p>\n",
      c->sweep->folds, fewer_chosen(c) ? "λ and the number of dimensions were" : "λ was");
}

void kf_section_summary(kf_string *out, const kf_page *c) {
  table t;
  collect(c, &t);
  const line *pair = first_pair(&t);
  kf_put(out, "<header>\n<h1><bdi>");
  kf_put_text(out, c->title != NULL ? c->title : "Koo-Fu report", 200);
  kf_put(out, "</bdi></h1>\n");
  put_facts(out, c);
  kf_put(out, "</header>\n");
  if (t.n == 0) return;
  kf_put(out, "<section id=\"summary\" aria-label=\"Summary\">\n");
  put_both(out, c, &t);
  if (pair != NULL) put_gain(out, c, pair);
  put_table(out, &t);
  put_left_out(out, c->eval);
  if (only_folds(c)) put_folds(out, c);
  if (only_folds(c) || c->k != NULL)
    kf_sample_words(out, c, only_folds(c) ? "All these are" : "Neighbours are");
  kf_section_end(out);
}
