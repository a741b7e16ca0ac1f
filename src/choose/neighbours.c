/* neighbours.c - choosing k: each row of a gallery in turn is left out, and its neighbours vote.
 * The neighbours of a smaller k are the first of those of a larger one, so one search serves all
 * k. */
#include "choose/choose.h"

#define MOST 50u

typedef struct k_job {
  kf_ctx *ctx;
  const kf_gallery *gallery;
  kf_k_options options;
  uint32_t most;
  uint64_t n;     /* rows that have a label */
  uint64_t taken; /* of them: every (n / taken)-th */
  uint64_t batch; /* rows */
  kf_poll poll;
  float *rows;     /* [batch][dim] */
  int64_t *number; /* [batch] */
  int64_t *found;  /* [batch][most] */
  double *scores;  /* [batch][most] */
  kf_score_card card;
  uint64_t scored;
  kf_arena arena;
} k_job;

static void count_votes(k_job *j, uint64_t n) {
  for (uint64_t i = 0; i < n; i++, j->scored++)
    for (uint32_t k = 0; k < j->most; k++) {
      kf_poll_count(&j->poll, j->found + i * j->most, j->scores + i * j->most, k, k + 1);
      kf_score_card_add(&j->card, 0, j->scored, k,
                        kf_poll_rank(&j->poll, j->gallery->labels[j->number[i]]));
    }
}

static kf_status search_batch(k_job *j, uint64_t n) {
  kf_err *err = &j->ctx->err;
  const kf_gallery *g = j->gallery;
  for (uint64_t i = 0; i < n; i++)
    KF_TRY(kf_gallery_fetch(g, j->ctx->kernels, (uint64_t)j->number[i], 1,
                            j->rows + i * g->space.dim, err));
  KF_TRY(kf_index_nearest_parallel(j->ctx, g->index, j->rows, n, j->most, j->number, j->found,
                                   j->scores, NULL));
  KF_TRY(kf_gallery_unchanged(g, err));
  count_votes(j, n);
  return kf_progress(j->ctx, "neighbours", j->scored, j->taken);
}

static kf_status search_all(k_job *j) {
  uint64_t in_batch = 0, seen = 0;
  for (uint64_t row = 0; row < j->gallery->rows; row++) {
    if (j->gallery->labels[row] < 0) continue;
    if (!kf_takes(seen++, j->taken, j->n)) continue;
    j->number[in_batch++] = (int64_t)row;
    if (in_batch < j->batch) continue;
    KF_TRY(search_batch(j, in_batch));
    in_batch = 0;
  }
  return in_batch > 0 ? search_batch(j, in_batch) : KF_OK;
}

static kf_status prepare(k_job *j) {
  kf_err *err = &j->ctx->err;
  const kf_gallery *g = j->gallery;
  const kf_k_options *o = &j->options;
  KF_TRY(kf_poll_start(&j->poll, g, o->weighted, o->temperature, err));
  j->most = o->most;
  if (j->most == 0) j->most = g->rows - 1 < MOST ? (uint32_t)(g->rows - 1) : MOST;
  KF_TRY(kf_check_neighbours(j->most, g->rows - 1, err));
  for (uint64_t row = 0; row < g->rows; row++) j->n += g->labels[row] >= 0;
  uint64_t most = o->sample > 0 ? o->sample : KF_DEFAULT_SAMPLE;
  j->taken = j->n < most ? j->n : most;
  if (j->n == 0) return kf_fail(err, KF_ERR_DATA, "no row of the gallery has a label");
  j->batch = kf_gallery_batch(j->ctx, g);
  KF_TAKE(&j->arena, j->rows, j->batch * g->space.dim);
  KF_TAKE(&j->arena, j->number, j->batch);
  KF_TAKE(&j->arena, j->found, j->batch * j->most);
  KF_TAKE(&j->arena, j->scores, j->batch * j->most);
  j->card = kf_score_card_take(&j->arena, j->taken, j->most, 1);
  return j->arena.failed ? kf_fail_memory(err) : KF_OK;
}

static kf_status hand_out(k_job *j, kf_k_choice **out) {
  kf_dim_point *points;
  if (KF_TAKE(&j->arena, points, j->most) == NULL) return kf_fail_memory(&j->ctx->err);
  kf_k_choice *c = kf_alloc_tail(sizeof *c, j->most, sizeof *c->points);
  if (c == NULL) return kf_fail_memory(&j->ctx->err);
  c->points = (kf_k_point *)(c + 1);
  size_t best, chosen = kf_first_good_enough(&j->card, j->options.tolerance, points, &best);
  c->k = (uint32_t)chosen + 1;
  c->best = (uint32_t)best + 1;
  c->n = j->scored;
  c->n_points = j->most;
  for (const kf_dim_point *p = points; p < points + j->most; p++)
    c->points[p - points] = (kf_k_point){p->dim, p->top1, p->top5, p->lost, p->won};
  *out = c;
  return KF_OK;
}

kf_status kf_k_choice_new(kf_ctx *ctx, const kf_gallery *gallery, const kf_k_options *options,
                          kf_k_choice **out) {
  KF_ENTER(ctx, gallery != NULL && out != NULL);
  KF_OPTIONS(kf_k_options, o, options);
  k_job j = {.ctx = ctx, .gallery = gallery, .options = o};
  KF_TRY(kf_check_tolerance(o.tolerance, err));
  if (gallery->rows < 2)
    return kf_fail(err, KF_ERR_DATA, "a gallery of one row has no neighbours to choose from");
  kf_status status = prepare(&j);
  if (status == KF_OK) status = search_all(&j);
  if (status == KF_OK) status = hand_out(&j, out);
  kf_arena_free(&j.arena);
  return status;
}

void kf_k_choice_free(kf_k_choice *choice) { kf_free(choice); }
