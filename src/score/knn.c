/* knn.c - k-nearest-neighbour accuracy of a gallery: over a data set, or leaving one out.
 *
 * One search with the largest k serves all smaller ones, since the neighbours of a smaller k are
 * the first of those of a larger. Rows go through in blocks; a block is fetched here, mapped and
 * searched on all threads, and its votes are counted here, which takes next to no time. */
#include "score/score.h"

typedef struct knn_job {
  kf_ctx *ctx;
  const kf_gallery *gallery;
  const kf_data *data; /* NULL: leave one out */
  kf_known known;
  unsigned char *mask; /* of the class set; NULL: rows of all classes are scored */
  kf_judge judge;
  const uint32_t *k; /* [n_k], rising */
  size_t n_k;
  uint64_t block;  /* rows at a time */
  float *rows;     /* [block][data dim] */
  int32_t *labels; /* [block] */
  kf_right *right; /* [block] n = 0: not scored */
  int64_t *found;  /* [block][largest k] */
  double *scores;  /* [block][largest k] */
  kf_poll poll;
  kf_tally *tally;
  kf_eval_result counts;
  kf_hits *hits; /* [n_k] */
  kf_search_report report;
} knn_job;

/* --- neighbours of a block: how many rows have some ------------------------------------------ */

static kf_status search_data(knn_job *j, uint64_t first, uint64_t n, uint64_t *kept) {
  const kf_data *data = j->data;
  KF_TRY(kf_data_fetch(data, j->ctx->kernels, first, n, j->rows, j->labels, NULL, &j->ctx->err));
  *kept = kf_keep_scored(j->tally, &j->judge, first, n, data->dim, j->rows, j->labels, NULL,
                         j->right, NULL);
  return kf_gallery_search(j->ctx, j->gallery, j->rows, *kept, j->k[j->n_k - 1], NULL, j->found,
                           j->scores, &j->report);
}

static kf_status search_itself(knn_job *j, uint64_t first, uint64_t n, uint64_t *kept) {
  for (uint64_t i = 0; i < n; i++) {
    int32_t label = j->gallery->labels[first + i];
    if (kf_count_row(j->tally, &j->judge, first + i, label, &j->right[i]) != KF_FATE_SCORED)
      j->right[i].n = 0;
  }
  *kept = n;
  return kf_gallery_search_itself(j->ctx, j->gallery, first, n, j->k[j->n_k - 1], j->found,
                                  j->scores, &j->report);
}

/* --- counting -------------------------------------------------------------------------------- */

/* That of the right class with the most votes. */
static uint32_t best_rank(const kf_poll *poll, const kf_right *right) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < right->n; i++) {
    uint32_t rank = kf_poll_rank(poll, right->classes[i]);
    if (rank < best) best = rank;
  }
  return best;
}

static void count_hits(knn_job *j, uint64_t n) {
  uint32_t most = j->k[j->n_k - 1];
  for (uint64_t i = 0; i < n; i++) {
    if (j->right[i].n == 0) continue;
    uint32_t from = 0;
    for (size_t t = 0; t < j->n_k; t++) {
      kf_poll_count(&j->poll, j->found + i * most, j->scores + i * most, from, j->k[t]);
      from = j->k[t];
      uint32_t rank = best_rank(&j->poll, &j->right[i]);
      j->hits[t].top1 += rank == 0;
      j->hits[t].top5 += rank < 5;
    }
  }
}

static kf_status run(knn_job *j) {
  uint64_t rows = j->data != NULL ? j->data->rows : j->gallery->rows;
  for (uint64_t first = 0; first < rows; first += j->block) {
    uint64_t n = rows - first < j->block ? rows - first : j->block, kept;
    KF_TRY(kf_progress(j->ctx, "eval k-NN", first, rows));
    KF_TRY(j->data != NULL ? search_data(j, first, n, &kept) : search_itself(j, first, n, &kept));
    count_hits(j, kept);
  }
  kf_tallies_sum(j->tally, 1, &j->judge, &j->counts);
  KF_TRY(kf_check_scored(&j->known, &j->counts, &j->ctx->err));
  return kf_progress(j->ctx, "eval k-NN", rows, rows);
}

/* --- kf_gallery_eval ------------------------------------------------------------------------- */

static kf_status check_list(const knn_job *j, kf_err *err) {
  if (j->n_k == 0) return kf_fail(err, KF_ERR_ARG, "the list of k is empty");
  for (size_t t = 0; t < j->n_k; t++)
    if (j->k[t] <= (t > 0 ? j->k[t - 1] : 0))
      return kf_fail(err, KF_ERR_ARG, "the list of k must rise, and %u stands at place %zu of it",
                     j->k[t], t);
  return kf_check_neighbours(j->k[j->n_k - 1], j->gallery->rows - (j->data == NULL), err);
}

/* Which rows are scored, and as what. */
static kf_status judge(knn_job *j, const kf_gallery_eval_options *o, kf_err *err) {
  uint64_t rows = j->data != NULL ? j->data->rows : j->gallery->rows;
  if (o->set != NULL) {
    j->mask = kf_alloc_zero(j->known.n_classes, 1);
    if (j->mask == NULL) return kf_fail_memory(err);
    KF_TRY(kf_class_set_mask(j->ctx, o->set, &j->known, j->mask));
    j->known.part = j->mask;
  }
  return kf_judge_start(&j->judge, &j->known, j->data, rows, o->truth, err);
}

static kf_status prepare(knn_job *j, const kf_gallery_eval_options *o, kf_err *err) {
  uint64_t most = j->k[j->n_k - 1];
  KF_TRY(judge(j, o, err));
  j->block = kf_gallery_batch(j->gallery);
  j->tally = kf_tallies_new(&j->judge, 1);
  j->rows = kf_alloc(j->data != NULL ? j->block * j->data->dim : 0, sizeof *j->rows);
  j->labels = kf_alloc(j->block, sizeof *j->labels);
  j->right = kf_alloc(j->block, sizeof *j->right);
  j->found = kf_alloc(j->block * most, sizeof *j->found);
  j->scores = kf_alloc(j->block * most, sizeof *j->scores);
  j->hits = kf_alloc_zero(j->n_k, sizeof *j->hits);
  if (!(j->tally && j->rows && j->labels && j->right && j->found && j->scores && j->hits))
    return kf_fail_memory(err);
  for (size_t t = 0; t < j->n_k; t++) j->hits[t].k = j->k[t];
  return KF_OK;
}

static void clear(knn_job *j) {
  kf_judge_clear(&j->judge);
  kf_tallies_free(j->tally);
  kf_free(j->mask);
  kf_free(j->rows);
  kf_free(j->labels);
  kf_free(j->right);
  kf_free(j->found);
  kf_free(j->scores);
  kf_free(j->hits);
}

static void hand_out(const knn_job *j, kf_eval_result *counts, kf_hits *hits,
                     kf_search_report *report) {
  *counts = j->counts;
  for (size_t t = 0; t < j->n_k; t++) hits[t] = j->hits[t];
  if (report == NULL) return;
  report->queries += j->report.queries;
  report->candidates += j->report.candidates;
}

kf_status kf_gallery_eval(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data,
                          const kf_gallery_eval_options *options, kf_eval_result *counts,
                          kf_hits *hits, kf_search_report *report) {
  KF_ENTER(ctx, gallery != NULL && counts != NULL && hits != NULL);
  static const uint32_t one[] = {KF_DEFAULT_NEIGHBOURS};
  kf_gallery_eval_options o = options != NULL ? *options : (kf_gallery_eval_options){0};
  knn_job j = {.ctx = ctx, .gallery = gallery, .data = data};
  j.k = o.k != NULL ? o.k : one;
  j.n_k = o.k != NULL ? o.n_k : 1;
  j.known = kf_known_gallery(gallery);
  KF_TRY(kf_poll_start(&j.poll, gallery, o.weighted, o.temperature, err));
  KF_TRY(check_list(&j, err));
  if (data != NULL) KF_TRY(kf_gallery_check_data(gallery, data, err));
  kf_status status = prepare(&j, &o, err);
  if (status == KF_OK) status = run(&j);
  if (status == KF_OK) hand_out(&j, counts, hits, report);
  clear(&j);
  return status;
}
