/* vote.c - k-nearest-neighbour classification: neighbours vote for their classes.
 *
 * The class with the most votes wins; ties go to the class with the nearest member, which was voted
 * for first, since neighbours come best first. Votes are added in the order of the neighbours,
 * weighted by kf_exp, because the last bit of libc's exp varies and could change the winner. */
#include "search/gallery.h"

#include <math.h>
#include <string.h>

/* --- a poll ---------------------------------------------------------------------------------- */

kf_status kf_poll_start(kf_poll *poll, const kf_gallery *gallery, int weighted, double temperature,
                        kf_err *err) {
  const char *path = kf_gallery_path(gallery);
  if (gallery->labels == NULL)
    return kf_fail(err, KF_ERR_DATA, "%s%sthe gallery has no labels to vote with",
                   path != NULL ? path : "", path != NULL ? ": " : "");
  if (!(temperature >= 0 && isfinite(temperature)))
    return kf_fail(err, KF_ERR_ARG, "the temperature is %g; it must be positive", temperature);
  if (temperature == 0) temperature = 0.07;
  poll->gallery = gallery;
  poll->temperature = weighted ? temperature : 0;
  poll->n = 0;
  return KF_OK;
}

static void add_vote(kf_poll *poll, int32_t class, double vote) {
  uint32_t at = 0;
  while (at < poll->n && poll->classes[at] != class) at++;
  if (at == poll->n) {
    poll->n++;
    poll->classes[at] = class;
    poll->votes[at] = 0;
  }
  poll->votes[at] += vote;
}

void kf_poll_count(kf_poll *poll, const int64_t *rows, const double *scores, uint32_t from,
                   uint32_t end) {
  if (from == 0) poll->n = 0;
  for (uint32_t i = from; i < end; i++) {
    int32_t class = poll->gallery->labels[rows[i]];
    if (class == KF_LABEL_NONE) continue;
    double vote = 1;
    /* Similarities fall along the list and distances rise, so the sign does not matter. */
    if (poll->temperature > 0) vote = kf_exp(-fabs(scores[i] - scores[0]) / poll->temperature);
    add_vote(poll, class, vote);
  }
}

uint32_t kf_poll_position(const kf_poll *poll, int32_t class) {
  uint32_t own = 0, before = 0;
  while (own < poll->n && poll->classes[own] != class) own++;
  if (own == poll->n) return UINT32_MAX;
  for (uint32_t i = 0; i < poll->n; i++)
    before += i < own ? poll->votes[i] >= poll->votes[own] : poll->votes[i] > poll->votes[own];
  return before;
}

/* The first `top` classes; the stable insertion sort keeps ties in the order of first votes. */
static void write_winners(kf_poll *poll, uint32_t top, int32_t *classes, double *votes) {
  for (uint32_t i = 1; i < poll->n; i++) {
    int32_t class = poll->classes[i];
    double vote = poll->votes[i];
    uint32_t at = i;
    for (; at > 0 && poll->votes[at - 1] < vote; at--) {
      poll->classes[at] = poll->classes[at - 1];
      poll->votes[at] = poll->votes[at - 1];
    }
    poll->classes[at] = class;
    poll->votes[at] = vote;
  }
  for (uint32_t t = 0; t < top; t++) {
    classes[t] = t < poll->n ? poll->classes[t] : KF_LABEL_NONE;
    if (votes != NULL) votes[t] = t < poll->n ? poll->votes[t] : 0;
  }
}

typedef struct neighbours {
  int64_t *rows;  /* [batch][k] */
  double *scores; /* [batch][k] */
  uint64_t batch;
  kf_search_report report;
} neighbours;

static kf_status classify(kf_ctx *ctx, kf_poll *poll, const kf_vote_options *o, const float *rows,
                          uint64_t n, neighbours *found, int32_t *classes, double *scores) {
  const kf_gallery *gallery = poll->gallery;
  uint32_t dim = kf_gallery_dim_in(gallery);
  for (uint64_t first = 0; first < n; first += found->batch) {
    uint64_t count = n - first < found->batch ? n - first : found->batch;
    KF_TRY(kf_gallery_nearest(ctx, gallery, rows + first * dim, first, count, o->k,
                              &(kf_search_options){.only = o->only}, found->rows, found->scores,
                              &found->report));
    for (uint64_t i = 0; i < count; i++) {
      kf_poll_count(poll, found->rows + i * o->k, found->scores + i * o->k, 0, o->k);
      uint64_t to = (first + i) * o->top;
      write_winners(poll, o->top, classes + to, scores != NULL ? scores + to : NULL);
    }
  }
  return KF_OK;
}

kf_status kf_gallery_classify(kf_ctx *ctx, const kf_gallery *gallery, const float *rows, uint64_t n,
                              const kf_vote_options *options, int32_t *classes, double *scores,
                              kf_search_report *report) {
  KF_ENTER(ctx, gallery != NULL && (n == 0 || (rows != NULL && classes != NULL)));
  KF_OPTIONS(kf_vote_options, o, options);
  if (o.k == 0) o.k = KF_DEFAULT_NEIGHBOURS;
  if (o.top == 0) o.top = 1;
  KF_TRY(kf_filter_check(o.only, gallery, err));
  KF_TRY(kf_check_neighbours(o.k, kf_filter_most(o.only, gallery->rows, NULL, 0), err));
  kf_poll poll = {0};
  KF_TRY(kf_poll_start(&poll, gallery, o.weighted, o.temperature, err));
  neighbours found = {.batch = kf_gallery_batch(ctx, gallery)};
  kf_arena arena = {0};
  KF_TAKE(&arena, found.rows, found.batch * o.k);
  KF_TAKE(&arena, found.scores, found.batch * o.k);
  kf_status status = arena.failed ? kf_fail_memory(err)
                                  : classify(ctx, &poll, &o, rows, n, &found, classes, scores);
  kf_arena_free(&arena);
  if (status == KF_OK && report != NULL) {
    report->queries += found.report.queries;
    report->candidates += found.report.candidates;
  }
  return status;
}
