/* knn.c - k-nearest-neighbour accuracy of a gallery: over a data set, or leaving one out.
 *
 * One search with the largest k serves all smaller ones, since the neighbours of a smaller k are
 * the first of those of a larger. Rows go through in blocks; a block is fetched here, mapped and
 * searched on all threads, and its votes are counted here, which takes next to no time. */
#include "score/match.h"

typedef struct knn_job {
  kf_ctx *ctx;
  const kf_gallery *gallery;
  const kf_data *data; /* NULL: leave one out */
  kf_known known;
  const uint32_t *k; /* [n_k], rising */
  size_t n_k;
  uint64_t block;  /* rows at a time */
  int32_t *match;  /* [data classes] */
  float *rows;     /* [block][data dim] */
  int32_t *labels; /* [block] in numbers of the gallery; below 0: not scored */
  int64_t *found;  /* [block][largest k] */
  double *scores;  /* [block][largest k] */
  kf_poll poll;
  kf_tally tally;
  kf_hits *hits; /* [n_k] */
  kf_search_report report;
} knn_job;

/* --- neighbours of a block: how many rows have some ------------------------------------------ */

static kf_status search_data(knn_job *j, uint64_t first, uint64_t n, uint64_t *kept) {
  const kf_data *data = j->data;
  KF_TRY(kf_data_fetch(data, j->ctx->kernels, first, n, j->rows, j->labels, NULL, &j->ctx->err));
  *kept = kf_keep_scored(&j->tally, j->match, data->dim, n, j->rows, j->labels, NULL);
  return kf_gallery_search(j->ctx, j->gallery, j->rows, *kept, j->k[j->n_k - 1], NULL, j->found,
                           j->scores, &j->report);
}

static kf_status search_itself(knn_job *j, uint64_t first, uint64_t n, uint64_t *kept) {
  for (uint64_t i = 0; i < n; i++) {
    j->labels[i] = j->gallery->labels[first + i];
    j->tally.sum.rows++;
    j->tally.sum.n += j->labels[i] >= 0;
    j->tally.sum.n_unlabelled += j->labels[i] < 0;
  }
  *kept = n;
  return kf_gallery_search_itself(j->ctx, j->gallery, first, n, j->k[j->n_k - 1], j->found,
                                  j->scores, &j->report);
}

/* --- counting -------------------------------------------------------------------------------- */

static void count_hits(knn_job *j, uint64_t n) {
  uint32_t most = j->k[j->n_k - 1];
  for (uint64_t i = 0; i < n; i++) {
    if (j->labels[i] < 0) continue;
    uint32_t from = 0;
    for (size_t t = 0; t < j->n_k; t++) {
      kf_poll_count(&j->poll, j->found + i * most, j->scores + i * most, from, j->k[t]);
      from = j->k[t];
      uint32_t rank = kf_poll_rank(&j->poll, j->labels[i]);
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
  for (uint32_t k = 0; j->data != NULL && k < j->data->n_classes; k++)
    j->tally.sum.absent_classes += j->tally.absent[k];
  KF_TRY(kf_check_scored(&j->known, &j->tally.sum, &j->ctx->err));
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

static kf_status check_data(const knn_job *j, kf_err *err) {
  KF_TRY(kf_gallery_check_data(j->gallery, j->data, err));
  return kf_check_labelled(j->data, err);
}

static kf_status prepare(knn_job *j, kf_err *err) {
  uint64_t most = j->k[j->n_k - 1], classes = j->data != NULL ? j->data->n_classes : 0;
  j->block = kf_gallery_block(j->gallery);
  j->match = kf_alloc(classes, sizeof *j->match);
  j->tally.absent = kf_alloc_zero(classes, 1);
  j->rows = kf_alloc(j->data != NULL ? j->block * j->data->dim : 0, sizeof *j->rows);
  j->labels = kf_alloc(j->block, sizeof *j->labels);
  j->found = kf_alloc(j->block * most, sizeof *j->found);
  j->scores = kf_alloc(j->block * most, sizeof *j->scores);
  j->hits = kf_alloc_zero(j->n_k, sizeof *j->hits);
  if (!(j->match && j->tally.absent && j->rows && j->labels && j->found && j->scores && j->hits))
    return kf_fail_memory(err);
  for (size_t t = 0; t < j->n_k; t++) j->hits[t].k = j->k[t];
  return j->data != NULL ? kf_match_classes(&j->known, j->data, j->match, err) : KF_OK;
}

static void clear(knn_job *j) {
  kf_free(j->match);
  kf_free(j->tally.absent);
  kf_free(j->rows);
  kf_free(j->labels);
  kf_free(j->found);
  kf_free(j->scores);
  kf_free(j->hits);
}

static void hand_out(const knn_job *j, kf_eval_result *counts, kf_hits *hits,
                     kf_search_report *report) {
  *counts = j->tally.sum;
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
  j.known = (kf_known){.what = "gallery",
                       .n_classes = gallery->n_classes,
                       .names = &gallery->names,
                       .counts = gallery->counts};
  KF_TRY(kf_poll_start(&j.poll, gallery, o.weighted, o.temperature, err));
  KF_TRY(check_list(&j, err));
  if (data != NULL) KF_TRY(check_data(&j, err));
  kf_status status = prepare(&j, err);
  if (status == KF_OK) status = run(&j);
  if (status == KF_OK) hand_out(&j, counts, hits, report);
  clear(&j);
  return status;
}
