/* eval.c - nearest-prototype accuracy over a data set, in the mapped and in the original space. */
#include "score/match.h"

#include <math.h>

#define CHUNK 256u
#define TOP   5u

/* --- counting -------------------------------------------------------------------------------- */

typedef struct eval_job {
  kf_ctx *ctx;
  const kf_data *data;
  const int32_t *match;              /* [data classes] */
  const kf_prototypes *mapped, *raw; /* NULL: not wanted */
  kf_tally *tallies;                 /* [threads] */
} eval_job;

typedef struct block {
  float *rows;
  int32_t *labels;
  double *norm2;
  int32_t *found; /* [n][top] */
} block;

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

static kf_status eval_block(const eval_job *j, kf_tally *t, block *b, uint64_t first, uint64_t n,
                            kf_err *err) {
  if (!(b->rows && b->labels && b->norm2 && b->found)) return kf_fail_memory(err);
  KF_TRY(kf_data_fetch(j->data, j->ctx->kernels, first, n, b->rows, b->labels, b->norm2, err));
  uint64_t kept = kf_keep_scored(t, j->match, j->data->dim, n, b->rows, b->labels, b->norm2);
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

static kf_status run(eval_job *j, int32_t *match, unsigned char *absent, const kf_known *known,
                     kf_eval_result *out) {
  kf_err *err = &j->ctx->err;
  unsigned threads = j->ctx->threads;
  if (match == NULL || absent == NULL || j->tallies == NULL) return kf_fail_memory(err);
  KF_TRY(kf_match_classes(known, j->data, match, err));
  for (unsigned t = 0; t < threads; t++)
    j->tallies[t].absent = absent + (uint64_t)t * j->data->n_classes;
  KF_TRY(kf_parallel(j->ctx, (size_t)((j->data->rows + CHUNK - 1) / CHUNK), eval_chunk, j));
  for (unsigned t = 0; t < threads; t++) add_tally(out, &j->tallies[t].sum);
  for (uint32_t k = 0; k < j->data->n_classes; k++) {
    bool seen = false;
    for (unsigned t = 0; t < threads; t++) seen |= j->tallies[t].absent[k] != 0;
    out->absent_classes += seen;
  }
  return kf_check_scored(known, out, err);
}

kf_status kf_eval(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                  const kf_eval_options *options, kf_eval_result *out) {
  KF_ENTER(ctx, model != NULL && data != NULL && out != NULL);
  kf_eval_options o = options != NULL ? *options : (kf_eval_options){0};
  KF_TRY(kf_model_check_data(model, data, err));
  KF_TRY(kf_check_labelled(data, err));
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
  kf_known known = {.what = "model",
                    .n_classes = model->n_classes,
                    .names = &model->names,
                    .counts = model->counts};
  kf_eval_result result = {0};
  if (status == KF_OK) status = run(&j, match, absent, &known, &result);
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
