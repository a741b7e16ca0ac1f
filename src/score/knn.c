/* knn.c - k-nearest-neighbour accuracy of a gallery: over a data set, or leave-one-out.
 *
 * One search with the largest k serves the smaller ones, since neighbours come in order. All
 * threads map and search a batch of rows; the calling thread counts the votes, which takes almost
 * no time. */
#include "score/score.h"

static const char stage[] = "eval k-NN";

typedef struct knn_job {
  kf_ctx *ctx;
  const kf_gallery *gallery;
  const uint32_t *k; /* [n_k], rising */
  size_t n_k;
  uint32_t most; /* the largest k */
  kf_poll poll;
  kf_judge judge;
  uint64_t batch; /* rows */
  int64_t *found; /* [batch][most] */
  double *scores; /* [batch][most] */
  kf_hits *hits;  /* [n_k] */
  kf_eval_result counts;
  kf_search_report report;
  kf_arena arena;
} knn_job;

/* --- counting -------------------------------------------------------------------------------- */

/* The position of the right class with the most votes. */
static uint32_t best_position(const kf_poll *poll, const kf_right *right) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < right->n; i++) {
    uint32_t position = kf_poll_position(poll, right->classes[i]);
    if (position < best) best = position;
  }
  return best;
}

/* Counts the votes of the neighbours of row i of a batch. */
static void count_votes(knn_job *j, uint64_t i, const kf_right *right) {
  uint32_t from = 0;
  for (size_t t = 0; t < j->n_k; t++) {
    kf_poll_count(&j->poll, j->found + i * j->most, j->scores + i * j->most, from, j->k[t]);
    from = j->k[t];
    uint32_t position = best_position(&j->poll, right);
    j->hits[t].top1 += position == 0;
    j->hits[t].top5 += position < 5;
  }
}

/* --- over a data set ------------------------------------------------------------------------- */

static kf_status search_batch(void *argument, const kf_judged *rows, kf_err *err) {
  knn_job *j = argument;
  (void)err; /* the context's own: there is one worker, the calling thread */
  KF_TRY(kf_gallery_search(j->ctx, j->gallery, rows->rows, rows->n, j->most, NULL, j->found,
                           j->scores, &j->report));
  for (uint64_t i = 0; i < rows->n; i++) count_votes(j, i, &rows->right[i]);
  return KF_OK;
}

/* --- over the gallery itself ----------------------------------------------------------------- */

static kf_status search_itself(knn_job *j) {
  const kf_gallery *g = j->gallery;
  kf_tally *tally = kf_tallies_take(&j->arena, &j->judge, 1);
  if (tally == NULL) return kf_fail_memory(&j->ctx->err);
  KF_TRY(kf_progress(j->ctx, stage, 0, g->rows));
  for (uint64_t first = 0; first < g->rows; first += j->batch) {
    uint64_t n = g->rows - first < j->batch ? g->rows - first : j->batch;
    KF_TRY(kf_gallery_search_itself(j->ctx, g, first, n, j->most, j->found, j->scores, &j->report));
    for (uint64_t i = 0; i < n; i++) {
      kf_right right;
      if (kf_count_row(tally, &j->judge, first + i, g->labels[first + i], &right) == KF_FATE_SCORED)
        count_votes(j, i, &right);
    }
    KF_TRY(kf_progress(j->ctx, stage, first + n, g->rows));
  }
  kf_tallies_sum(tally, 1, &j->judge, &j->counts);
  return KF_OK;
}

/* --- kf_gallery_eval ------------------------------------------------------------------------- */

static kf_status check_list(const knn_job *j, uint64_t neighbours, kf_err *err) {
  for (size_t t = 0; t < j->n_k; t++)
    if (j->k[t] <= (t > 0 ? j->k[t - 1] : 0))
      return kf_fail(err, KF_ERR_ARG, "the list of k must rise, but has %u in place %zu", j->k[t],
                     t);
  return kf_check_neighbours(j->most, neighbours, err);
}

static kf_status evaluate(knn_job *j, const kf_data *data, const kf_gallery_eval_options *o) {
  kf_err *err = &j->ctx->err;
  uint64_t rows = data != NULL ? data->rows : j->gallery->rows;
  KF_TRY(kf_judge_start(j->ctx, &j->judge, kf_known_gallery(j->gallery), o->set, data, rows,
                        o->truth));
  j->batch = kf_gallery_batch(j->ctx, j->gallery);
  KF_TAKE(&j->arena, j->found, j->batch * j->most);
  KF_TAKE(&j->arena, j->scores, j->batch * j->most);
  KF_TAKE_ZERO(&j->arena, j->hits, j->n_k);
  if (j->arena.failed) return kf_fail_memory(err);
  for (size_t t = 0; t < j->n_k; t++) j->hits[t].k = j->k[t];
  kf_judged_pass pass = {.what = stage,
                         .rows = j->batch,
                         .workers = 1,
                         .judge = &j->judge,
                         .work = search_batch,
                         .argument = j};
  KF_TRY(data != NULL ? kf_each_judged(j->ctx, data, &pass, &j->counts) : search_itself(j));
  return kf_check_scored(&j->judge, &j->counts, err);
}

kf_status kf_gallery_eval(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data,
                          const kf_gallery_eval_options *options, kf_eval_result *counts,
                          kf_hits *hits, kf_search_report *report) {
  KF_ENTER(ctx, gallery != NULL && counts != NULL && hits != NULL);
  KF_OPTIONS(kf_gallery_eval_options, o, options);
  static const uint32_t one[] = {KF_DEFAULT_NEIGHBOURS};
  knn_job j = {.ctx = ctx, .gallery = gallery};
  j.k = o.k != NULL ? o.k : one;
  j.n_k = o.k != NULL ? o.n_k : 1;
  if (j.n_k == 0) return kf_fail(err, KF_ERR_ARG, "the list of k is empty");
  j.most = j.k[j.n_k - 1];
  KF_TRY(kf_poll_start(&j.poll, gallery, o.weighted, o.temperature, err));
  KF_TRY(check_list(&j, gallery->rows - (data == NULL), err));
  if (data != NULL) KF_TRY(kf_gallery_check_data(gallery, data, err));
  kf_status status = evaluate(&j, data, &o);
  if (status == KF_OK) {
    *counts = j.counts;
    for (size_t t = 0; t < j.n_k; t++) hits[t] = j.hits[t];
  }
  if (status == KF_OK && report != NULL) {
    report->queries += j.report.queries;
    report->candidates += j.report.candidates;
  }
  kf_judge_clear(&j.judge);
  kf_arena_free(&j.arena);
  return status;
}
