/* shots.c - accuracy as a function of the number of training rows per class.
 *
 * Every row gets a number that depends only on the seed and on its index in the data set, and the
 * rows with the smallest numbers of each class are drawn. So a draw is the same on every machine
 * and for any number of threads, and draws of one seed are nested: the rows of two shots are among
 * those of four, and a curve shows the effect of more rows rather than of other rows.
 *
 * Lambda and alpha are chosen from the drawn rows. Test rows are used only after the last
 * choice. */
#include "choose/choose.h"

#include <math.h>
#include <stdlib.h>

static const uint32_t usual_shots[] = {1, 2, 4, 8, 16};
#define USUAL_SEEDS 3u
#define MOST_SEEDS  1000u

/* --- drawing --------------------------------------------------------------------------------- */

typedef struct ticket {
  uint64_t number, row;
  int32_t label;
} ticket;

static uint64_t ticket_number(uint64_t seed, uint64_t row) {
  return kf_mix64(kf_mix64((seed + 1) * KF_GOLDEN64) + (row + 1) * KF_GOLDEN64);
}

static int by_number(const void *a, const void *b) {
  const ticket *x = a, *y = b;
  if (x->label != y->label) return x->label < y->label ? -1 : 1;
  if (x->number != y->number) return x->number < y->number ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

static int by_row(const void *a, const void *b) {
  const ticket *x = a, *y = b;
  return x->row < y->row ? -1 : x->row > y->row;
}

kf_status kf_draw_rows(const kf_row_list *all, uint64_t seed, uint32_t shots, kf_row_list *out,
                       kf_err *err) {
  ticket *tickets = kf_alloc(all->n, sizeof *tickets);
  if (tickets == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < all->n; i++)
    tickets[i] = (ticket){ticket_number(seed, all->row[i]), all->row[i], all->label[i]};
  qsort(tickets, all->n, sizeof *tickets, by_number);
  uint64_t n = 0, of_class = 0;
  int32_t label = KF_LABEL_NONE;
  for (uint64_t i = 0; i < all->n; i++) {
    of_class = tickets[i].label == label ? of_class + 1 : 1;
    label = tickets[i].label;
    if (of_class <= shots) tickets[n++] = tickets[i];
  }
  qsort(tickets, n, sizeof *tickets, by_row);
  kf_status status = kf_row_list_make(out, n, err);
  for (uint64_t i = 0; status == KF_OK && i < n; i++)
    kf_row_list_add(out, tickets[i].row, tickets[i].label);
  kf_free(tickets);
  return status;
}

/* --- one draw -------------------------------------------------------------------------------- */

typedef struct shots_job {
  kf_ctx *ctx;
  const kf_data *data, *test;
  const kf_text *text; /* or NULL */
  kf_shots_options options;
  kf_row_list all; /* rows that have a label */
  kf_shots *out;
  kf_stage stage;
} shots_job;

typedef struct draw {
  kf_row_list rows;
  kf_data *data;
  kf_stats *stats;
  kf_fitter *fitter;
  kf_model *model, *fused;
  kf_lambda_choice *lambda;
  kf_fuse_choice *fuse;
  kf_shots_point *points; /* [n_classifiers] */
} draw;

static void draw_clear(draw *d) {
  kf_model_free(d->model);
  kf_model_free(d->fused);
  kf_lambda_choice_free(d->lambda);
  kf_fuse_choice_free(d->fuse);
  kf_fitter_free(d->fitter);
  kf_stats_free(d->stats);
  kf_data_free(d->data);
  kf_row_list_clear(&d->rows);
}

/* If no class has two different rows, there is no scatter within classes and nothing to leave out.
 * In the paper's method the map is then a rotation, whatever lambda is. */
static kf_status choose_lambda(draw *d, kf_lambda *lambda) {
  *lambda = (kf_lambda){1, KF_LAMBDA_ABSOLUTE};
  if (d->fitter->by_all_rows) *lambda = (kf_lambda){.unit = KF_LAMBDA_AUTO};
  if (d->fitter->by_all_rows || !(d->fitter->mean_eigenvalue > 0)) return KF_OK;
  KF_TRY(kf_lambda_choice_with(d->fitter, d->data, &(kf_lambda_options){0}, &d->lambda));
  lambda->value = d->lambda->lambda;
  return KF_OK;
}

static void set_point(draw *d, kf_shots_classifier classifier, uint64_t n, uint64_t top1,
                      uint64_t top5) {
  kf_shots_point *p = &d->points[classifier];
  p->n = n;
  p->top1 = top1;
  p->top5 = top5;
}

/* A fit of images is also judged in the original space. */
static kf_status judge(shots_job *j, draw *d, const kf_model *model, kf_part part,
                       kf_shots_classifier classifier) {
  bool images = classifier == KF_SHOTS_KOOFU;
  kf_eval_options options = {
      .include_raw = images ? KF_ON : KF_OFF, .part = part, .truth = j->options.truth};
  kf_eval_result r = {0};
  KF_TRY(kf_eval(j->ctx, model, j->test, &options, &r));
  set_point(d, classifier, r.n, r.top1, r.top5);
  if (images) set_point(d, KF_SHOTS_RAW, r.n, r.raw_top1, r.raw_top5);
  return KF_OK;
}

/* Text alone is the same for all draws, so it is judged once. */
static kf_status judge_text(shots_job *j, draw *d) {
  const kf_shots_point *first = j->out->points;
  if (d->points == first) return judge(j, d, d->fused, KF_PART_TEXT, KF_SHOTS_TEXT);
  first += KF_SHOTS_TEXT;
  set_point(d, KF_SHOTS_TEXT, first->n, first->top1, first->top5);
  return KF_OK;
}

/* The map of the fused model is centred, which is better for fusion (docs/choosing.md). */
static kf_status fit_fused(shots_job *j, draw *d) {
  kf_fuse_options options = {.centre = KF_CENTRE_MEAN};
  KF_TRY(kf_fuse_choice_with(d->fitter, d->data, j->text, &options, &d->fuse));
  kf_lambda lambda = {d->fuse->lambda, KF_LAMBDA_ABSOLUTE};
  kf_model_free(d->model);
  d->model = NULL;
  KF_TRY(kf_fitter_fit(d->fitter, lambda, 0, KF_CENTRE_MEAN, &d->model));
  KF_TRY(kf_model_new_fused(j->ctx, d->model, j->text, d->fuse->alpha, &d->fused));
  d->points[KF_SHOTS_FUSED].lambda = d->fuse->lambda;
  d->points[KF_SHOTS_FUSED].alpha = d->fuse->alpha;
  return KF_OK;
}

static kf_status try_draw(shots_job *j, draw *d, uint32_t shots, uint64_t seed) {
  kf_ctx *ctx = j->ctx;
  kf_lambda lambda;
  KF_TRY(kf_draw_rows(&j->all, seed, shots, &d->rows, &ctx->err));
  KF_TRY(kf_data_new_pick(j->data, d->rows.row, d->rows.n, &d->data, &ctx->err));
  KF_TRY(kf_stats_of_data(ctx, d->data, &(kf_stats_options){0}, &d->stats));
  KF_TRY(kf_fitter_new(ctx, d->stats, NULL, j->options.method, &d->fitter));
  KF_TRY(choose_lambda(d, &lambda));
  KF_TRY(kf_fitter_fit(d->fitter, lambda, 0, KF_CENTRE_DEFAULT, &d->model));
  d->points[KF_SHOTS_KOOFU].lambda = d->model->map.lambda;
  KF_TRY(judge(j, d, d->model, KF_PART_DEFAULT, KF_SHOTS_KOOFU));
  if (j->text != NULL) {
    KF_TRY(fit_fused(j, d));
    KF_TRY(judge_text(j, d));
    KF_TRY(judge(j, d, d->fused, KF_PART_FUSED, KF_SHOTS_FUSED));
  }
  return kf_stage_step(&j->stage);
}

/* --- all draws ------------------------------------------------------------------------------- */

static kf_status try_draws(shots_job *j) {
  kf_shots *s = j->out;
  kf_shots_point *points = s->points;
  for (size_t i = 0; i < s->n_sizes; i++)
    for (uint32_t seed = 0; seed < s->seeds; seed++, points += s->n_classifiers) {
      for (size_t c = 0; c < s->n_classifiers; c++)
        points[c] = (kf_shots_point){
            .shots = s->sizes[i].shots, .seed = seed, .classifier = (kf_shots_classifier)c};
      draw d = {.points = points};
      kf_status status = try_draw(j, &d, s->sizes[i].shots, seed);
      draw_clear(&d);
      KF_TRY(status);
    }
  return KF_OK;
}

/* Counts the rows that each number of shots draws, the same for all seeds. */
static kf_status count_rows(shots_job *j) {
  kf_shots *s = j->out;
  uint64_t *count = kf_alloc_zero(j->data->n_classes, sizeof *count);
  if (count == NULL) return kf_fail_memory(&j->ctx->err);
  for (uint64_t i = 0; i < j->all.n; i++) count[j->all.label[i]]++;
  for (uint32_t k = 0; k < j->data->n_classes; k++) {
    s->classes += count[k] > 0;
    if (count[k] > s->most) s->most = count[k];
    for (size_t i = 0; i < s->n_sizes; i++) {
      uint32_t shots = s->sizes[i].shots;
      s->sizes[i].rows += count[k] < shots ? count[k] : shots;
      s->sizes[i].fewer += count[k] > 0 && count[k] < shots;
    }
  }
  kf_free(count);
  return KF_OK;
}

static void log_small_classes(const shots_job *j) {
  const kf_shots *s = j->out;
  for (size_t i = 0; i < s->n_sizes; i++) {
    const kf_shots_size *size = &s->sizes[i];
    if (size->fewer == 0) continue;
    if (size->shots > s->most)
      kf_log(j->ctx,
             "%u shots were asked for, but no class has more than %llu rows: all %llu rows were "
             "taken, whatever the seed",
             size->shots, (unsigned long long)s->most, (unsigned long long)size->rows);
    else
      kf_log(j->ctx, "%u of %u classes have fewer than %u rows and gave all they have", size->fewer,
             s->classes, size->shots);
  }
}

static kf_status check_options(shots_job *j) {
  kf_err *err = &j->ctx->err;
  kf_shots_options *o = &j->options;
  if (o->shots == NULL) {
    o->shots = usual_shots;
    o->n_shots = sizeof usual_shots / sizeof *usual_shots;
  }
  if (o->seeds == 0) o->seeds = USUAL_SEEDS;
  if (o->n_shots == 0) return kf_fail(err, KF_ERR_ARG, "the list of shots is empty");
  for (size_t i = 0; i < o->n_shots; i++)
    if (o->shots[i] == 0 || (i > 0 && o->shots[i] <= o->shots[i - 1]))
      return kf_fail(err, KF_ERR_ARG, "the list of shots must rise and begin above 0");
  if (o->seeds > MOST_SEEDS)
    return kf_fail(err, KF_ERR_ARG, "%u seeds were asked for; there must be 1 to %u", o->seeds,
                   MOST_SEEDS);
  if (!j->data->has_labels)
    return kf_fail_unlabelled(err, j->data, KF_HINT_LABELS, "the rows have no labels");
  KF_TRY(kf_data_refuse_mapped(j->data, err));
  KF_TRY(kf_data_refuse_mapped(j->test, err));
  KF_TRY(kf_origin_agree(&j->test->origin, &j->data->origin, err));
  if (j->test->dim != j->data->dim)
    return kf_fail(err, KF_ERR_DATA, "the test rows have %u columns, but the training rows %u",
                   j->test->dim, j->data->dim);
  if (j->text == NULL) return KF_OK;
  KF_TRY(kf_text_check(j->text, j->data->dim, &j->data->origin, err));
  return kf_text_match(j->ctx, j->text, "the training data", &j->data->names, j->data->n_classes);
}

static kf_status try_all(shots_job *j) {
  kf_ctx *ctx = j->ctx;
  const kf_shots_options *o = &j->options;
  kf_shots *s = j->out;
  s->seeds = o->seeds;
  s->method = o->method == KF_METHOD_PAPER ? KF_METHOD_PAPER : KF_METHOD_SHRUNK;
  s->n_sizes = o->n_shots;
  s->n_points = s->n_sizes * s->seeds * s->n_classifiers;
  s->sizes = (kf_shots_size *)(s + 1);
  s->points = (kf_shots_point *)(s->sizes + s->n_sizes);
  for (size_t i = 0; i < s->n_sizes; i++) s->sizes[i].shots = o->shots[i];
  uint64_t labelled;
  KF_TRY(kf_sample_rows(ctx, j->data, UINT64_MAX, &j->all, &labelled));
  KF_TRY(count_rows(j));
  log_small_classes(j);
  kf_stage_begin(&j->stage, ctx, "shots", s->n_sizes * s->seeds);
  kf_status status = try_draws(j);
  kf_stage_end(&j->stage);
  return status;
}

kf_status kf_shots_new(kf_ctx *ctx, const kf_data *data, const kf_data *test, const kf_text *text,
                       const kf_shots_options *options, kf_shots **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, data != NULL && test != NULL && out != NULL);
  KF_OPTIONS(kf_shots_options, o, options);
  shots_job j = {.ctx = ctx, .data = data, .test = test, .text = text, .options = o};
  KF_TRY(check_options(&j));
  const kf_shots_options *c = &j.options;
  size_t classifiers = text != NULL ? KF_SHOTS_CLASSIFIERS : KF_SHOTS_TEXT;
  size_t of_a_size = sizeof *j.out->sizes + c->seeds * classifiers * sizeof *j.out->points;
  j.out = kf_alloc_tail(sizeof *j.out, c->n_shots, of_a_size);
  if (j.out == NULL) return kf_fail_memory(err);
  j.out->n_classifiers = classifiers;
  kf_test_sample sample;
  kf_status status = kf_test_sample_take(ctx, test, o.truth, o.sample, &sample);
  if (sample.data != NULL) j.test = sample.data, j.options.truth = sample.truth;
  if (status == KF_OK) status = try_all(&j);
  kf_test_sample_clear(&sample);
  kf_row_list_clear(&j.all);
  KF_HAND_OUT(status, out, j.out, kf_shots_free);
}

void kf_shots_free(kf_shots *shots) { kf_free(shots); }

/* --- over seeds ------------------------------------------------------------------------------ */

const char *kf_shots_classifier_name(kf_shots_classifier classifier) {
  static const char *const names[KF_SHOTS_CLASSIFIERS] = {"raw", "koofu", "text", "fused"};
  return (unsigned)classifier < KF_SHOTS_CLASSIFIERS ? names[classifier] : NULL;
}

const kf_shots_point *kf_shots_at(const kf_shots *shots, size_t size, uint32_t seed,
                                  kf_shots_classifier classifier) {
  if (size >= shots->n_sizes || seed >= shots->seeds ||
      (unsigned)classifier >= shots->n_classifiers)
    return NULL;
  return &shots->points[(size * shots->seeds + seed) * shots->n_classifiers + classifier];
}

static double share_of(const kf_shots_point *p, int top5) {
  return p->n > 0 ? (double)(top5 ? p->top5 : p->top1) / (double)p->n : 0;
}

void kf_shots_spread(const kf_shots *shots, size_t size, kf_shots_classifier classifier, int top5,
                     kf_spread *out) {
  *out = (kf_spread){0};
  if (kf_shots_at(shots, size, 0, classifier) == NULL) return;
  double sum = 0, squares = 0, n = shots->seeds;
  out->low = 1;
  for (uint32_t seed = 0; seed < shots->seeds; seed++) {
    double share = share_of(kf_shots_at(shots, size, seed, classifier), top5);
    out->low = fmin(out->low, share);
    out->high = fmax(out->high, share);
    sum += share;
  }
  out->mean = sum / n;
  for (uint32_t seed = 0; seed < shots->seeds; seed++) {
    double share = share_of(kf_shots_at(shots, size, seed, classifier), top5);
    squares += (share - out->mean) * (share - out->mean);
  }
  if (n > 1) out->deviation = sqrt(squares / (n - 1));
}
