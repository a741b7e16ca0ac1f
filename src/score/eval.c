/* eval.c - nearest-prototype accuracy over a data set, in the mapped and in the original space. */
#include "search/search.h"

#include <math.h>
#include <string.h>

#define CHUNK 256u
#define TOP   5u

/* --- matching classes ------------------------------------------------------------------------ */

/* to[k]: the class of the model that class k of the data set is, or -1. */
static kf_status match_classes(const kf_model *model, const kf_data *data, int32_t *to,
                               kf_err *err) {
  kf_map *map = NULL;
  /* Numbers mean nothing against names that may have been sorted: guessing would give an accuracy
   * that is wrong without a word. */
  if ((data->names.n > 0) != (model->names.n > 0))
    return kf_fail(err, KF_ERR_DATA,
                   data->names.n > 0
                       ? "the labels are names and the classes of the model have none; give the "
                         "labels as class numbers"
                       : "the labels are numbers and the classes of the model have names; give the "
                         "names that the numbers stand for (--classes)");
  if (data->names.n > 0) KF_TRY(kf_map_new_from_names(&model->names, "the model", &map, err));
  for (uint32_t k = 0; k < data->n_classes; k++) {
    int64_t at = k < model->n_classes ? (int64_t)k : -1;
    if (map != NULL) at = kf_map_find(map, data->names.name[k], strlen(data->names.name[k]));
    to[k] = at >= 0 && model->counts[at] > 0 ? (int32_t)at : -1;
  }
  kf_map_free(map);
  return KF_OK;
}

/* --- counting -------------------------------------------------------------------------------- */

typedef struct tally {
  kf_eval_result sum;
  unsigned char *absent; /* [data classes] 1: rows of this class were left out */
} tally;

typedef struct eval_job {
  kf_ctx *ctx;
  const kf_data *data;
  const int32_t *match;              /* [data classes] */
  const kf_prototypes *mapped, *raw; /* NULL: not wanted */
  tally *tallies;                    /* [threads] */
} eval_job;

typedef struct block {
  float *rows;
  int32_t *labels;
  double *norm2;
  int32_t *found; /* [n][top] */
} block;

/* Moves the rows that can be scored to the front, their labels in the model's numbers. */
static uint64_t keep_scored(const eval_job *j, tally *t, block *b, uint64_t n) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < n; i++) {
    int32_t label = b->labels[i];
    t->sum.rows++;
    if (label == KF_LABEL_BAD) {
      t->sum.n_bad++;
    } else if (label == KF_LABEL_NONE) {
      t->sum.n_unlabelled++;
    } else if (j->match[label] < 0) {
      t->sum.n_absent++;
      t->absent[label] = 1;
    } else {
      memmove(b->rows + kept * j->data->dim, b->rows + i * j->data->dim,
              j->data->dim * sizeof *b->rows);
      b->norm2[kept] = b->norm2[i];
      b->labels[kept++] = j->match[label];
    }
  }
  t->sum.n += kept;
  return kept;
}

static kf_status count_hits(const kf_prototypes *p, const block *b, uint64_t n, uint64_t *top1,
                            uint64_t *top5, kf_err *err) {
  uint32_t top = p->n < TOP ? p->n : TOP;
  KF_TRY(kf_prototypes_nearest(p, b->rows, b->norm2, n, top, b->found, NULL, err));
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t t = 0; t < top; t++)
      if (b->found[i * top + t] == b->labels[i]) {
        *top1 += t == 0;
        ++*top5;
      }
  return KF_OK;
}

static kf_status eval_block(const eval_job *j, tally *t, block *b, uint64_t first, uint64_t n,
                            kf_err *err) {
  if (!(b->rows && b->labels && b->norm2 && b->found)) return kf_fail_memory(err);
  KF_TRY(kf_data_fetch(j->data, j->ctx->kernels, first, n, b->rows, b->labels, b->norm2, err));
  uint64_t kept = keep_scored(j, t, b, n);
  if (j->mapped != NULL) KF_TRY(count_hits(j->mapped, b, kept, &t->sum.top1, &t->sum.top5, err));
  if (j->raw != NULL) KF_TRY(count_hits(j->raw, b, kept, &t->sum.raw_top1, &t->sum.raw_top5, err));
  return KF_OK;
}

static kf_status eval_chunk(void *argument, size_t i, size_t worker, kf_err *err) {
  const eval_job *j = argument;
  uint64_t first = (uint64_t)i * CHUNK, left = j->data->rows - first;
  uint64_t n = left < CHUNK ? left : CHUNK;
  block b = {.rows = kf_alloc(n * j->data->dim, sizeof *b.rows),
             .labels = kf_alloc(n, sizeof *b.labels),
             .norm2 = kf_alloc(n, sizeof *b.norm2),
             .found = kf_alloc(n * TOP, sizeof *b.found)};
  kf_status status = eval_block(j, &j->tallies[worker], &b, first, n, err);
  kf_free(b.rows);
  kf_free(b.labels);
  kf_free(b.norm2);
  kf_free(b.found);
  /* Chunks are handed out in order, so the number of this one says how far the work is. */
  if (status == KF_OK && worker == 0) {
    status = kf_progress(j->ctx, "eval", first + n, j->data->rows);
    if (status != KF_OK) *err = j->ctx->err;
  }
  return status;
}

static void add_tally(kf_eval_result *to, const kf_eval_result *from) {
  to->rows += from->rows;
  to->n += from->n;
  to->n_unlabelled += from->n_unlabelled;
  to->n_absent += from->n_absent;
  to->n_bad += from->n_bad;
  to->top1 += from->top1;
  to->top5 += from->top5;
  to->raw_top1 += from->raw_top1;
  to->raw_top5 += from->raw_top5;
}

/* --- kf_eval --------------------------------------------------------------------------------- */

static kf_status run(eval_job *j, int32_t *match, unsigned char *absent, const kf_model *model,
                     kf_eval_result *out) {
  kf_err *err = &j->ctx->err;
  unsigned threads = j->ctx->threads;
  if (match == NULL || absent == NULL || j->tallies == NULL) return kf_fail_memory(err);
  KF_TRY(match_classes(model, j->data, match, err));
  for (unsigned t = 0; t < threads; t++)
    j->tallies[t].absent = absent + (uint64_t)t * j->data->n_classes;
  KF_TRY(kf_parallel(j->ctx, (size_t)((j->data->rows + CHUNK - 1) / CHUNK), eval_chunk, j));
  for (unsigned t = 0; t < threads; t++) add_tally(out, &j->tallies[t].sum);
  for (uint32_t k = 0; k < j->data->n_classes; k++) {
    bool seen = false;
    for (unsigned t = 0; t < threads; t++) seen |= j->tallies[t].absent[k] != 0;
    out->absent_classes += seen;
  }
  if (out->n == 0)
    return kf_fail(err, KF_ERR_DATA,
                   "none of the %llu rows can be scored: %llu have no label, %llu "
                   "belong to classes that the model does not know, %llu are bad",
                   (unsigned long long)out->rows, (unsigned long long)out->n_unlabelled,
                   (unsigned long long)out->n_absent, (unsigned long long)out->n_bad);
  return KF_OK;
}

kf_status kf_eval(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                  const kf_eval_options *options, kf_eval_result *out) {
  KF_ENTER(ctx, model != NULL && data != NULL && out != NULL);
  kf_eval_options o = options != NULL ? *options : (kf_eval_options){0};
  KF_TRY(kf_model_check_data(model, data, err));
  if (!data->has_labels)
    return kf_fail(err, KF_ERR_DATA,
                   "the rows have no labels to compare with; give a label file (--labels)");
  kf_prototypes *mapped = NULL, *raw = NULL;
  kf_status status = KF_OK;
  if (!o.skip_model) status = kf_prototypes_new(ctx, model, o.metric, false, &mapped);
  if (status == KF_OK && !o.skip_raw) status = kf_prototypes_new(ctx, model, o.metric, true, &raw);
  int32_t *match = kf_alloc(data->n_classes, sizeof *match);
  unsigned char *absent = kf_alloc_zero((uint64_t)ctx->threads * data->n_classes, 1);
  eval_job j = {.ctx = ctx,
                .data = data,
                .match = match,
                .mapped = mapped,
                .raw = raw,
                .tallies = kf_alloc_zero(ctx->threads, sizeof *j.tallies)};
  kf_eval_result result = {0};
  if (status == KF_OK) status = run(&j, match, absent, model, &result);
  if (status == KF_OK) *out = result;
  kf_free(match);
  kf_free(absent);
  kf_free(j.tallies);
  kf_prototypes_free(mapped);
  kf_prototypes_free(raw);
  return status;
}

void kf_interval95(uint64_t hits, uint64_t n, double *low, double *high) {
  const double z = 1.959963984540054; /* the 97.5 % point of the normal distribution */
  if (n == 0) {
    *low = 0;
    *high = 1;
    return;
  }
  double p = (double)hits / (double)n, m = (double)n;
  double centre = (p + z * z / (2 * m)) / (1 + z * z / m);
  double half = z * sqrt(p * (1 - p) / m + z * z / (4 * m * m)) / (1 + z * z / m);
  *low = hits == 0 ? 0 : centre - half;
  *high = hits == n ? 1 : centre + half;
}
