/* stage.c - one stage of progress made of many calls: stands between a context and its
 * callbacks. */
#include "base/base.h"

#define PARTS 1000u /* what a stage of parts counts to */

/* What a part calls may count several times from 0, so the stage keeps what it has reached. */
static void advance(kf_stage *s, uint64_t done, uint64_t total) {
  double share = total > 0 ? (double)done / (double)total : 0;
  double reached = PARTS * (s->costs + s->cost * share) / s->all + 1e-6; /* sums are rounded */
  if (reached > (double)s->done) s->done = reached < PARTS ? (uint64_t)reached : PARTS;
}

static int pass_progress(void *user, const char *what, uint64_t done, uint64_t total) {
  kf_stage *s = user;
  if (s->caller.progress == NULL) return 0;
  if (s->what == NULL) return s->caller.progress(s->caller.user, what, done, total);
  if (s->all > 0) advance(s, done, total);
  return s->caller.progress(s->caller.user, s->what, s->done + (s->inside ? done : 0), s->total);
}

static bool is_new(kf_stage *s, const char *message) {
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  for (const char *c = message; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  for (unsigned i = 0; i < s->n_heard; i++)
    if (s->heard[i] == hash) return false;
  if (s->n_heard < sizeof s->heard / sizeof *s->heard) s->heard[s->n_heard++] = hash;
  return true;
}

static void pass_log(void *user, const char *message) {
  kf_stage *s = user;
  if (s->hear != NULL)
    s->hear(s->listener, message);
  else if (!is_new(s, message))
    return;
  if (s->caller.log != NULL) s->caller.log(s->caller.user, message);
}

void kf_stage_begin(kf_stage *s, kf_ctx *ctx, const char *what, uint64_t total) {
  *s = (kf_stage){.ctx = ctx, .caller = ctx->options, .what = what, .total = total};
  ctx->options.progress = pass_progress;
  ctx->options.log = pass_log;
  ctx->options.user = s;
}

void kf_stage_begin_parts(kf_stage *s, kf_ctx *ctx, const char *what, double all) {
  kf_stage_begin(s, ctx, what, PARTS);
  s->all = all;
}

kf_status kf_stage_part(kf_stage *s, double cost) {
  s->costs += s->cost;
  s->cost = cost;
  return kf_progress(s->ctx, s->what, 0, PARTS);
}

kf_status kf_stage_step(kf_stage *s) {
  s->done++;
  return kf_progress(s->ctx, s->what, 0, s->total);
}

void kf_stage_end(kf_stage *s) {
  if (s->ctx == NULL) return;
  s->ctx->options = s->caller;
  s->ctx = NULL;
}
