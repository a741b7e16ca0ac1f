/* quiet.c - long work made of many small calls reports as one stage: meanwhile the progress of those
 * calls is not passed on, but the wish to stop is. */
#include "choose/choose.h"

static int pass_on(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)what;
  (void)done;
  (void)total;
  const kf_quiet *q = user;
  return q->progress != NULL ? q->progress(q->user, q->what, q->done, q->total) : 0;
}

/* Many calls have the same to say, and once is enough. */
static void log_on(void *user, const char *message) {
  kf_quiet *q = user;
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  for (const char *c = message; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  for (unsigned i = 0; i < q->n_said; i++)
    if (q->said[i] == hash) return;
  if (q->n_said < KF_QUIET_SAID) q->said[q->n_said++] = hash;
  if (q->log != NULL) q->log(q->user, message);
}

void kf_quiet_begin(kf_quiet *q, kf_ctx *ctx, const char *what, uint64_t total) {
  kf_ctx_options *o = &ctx->options;
  *q = (kf_quiet){.ctx = ctx,
                  .progress = o->progress,
                  .log = o->log,
                  .user = o->user,
                  .what = what,
                  .total = total};
  o->progress = pass_on;
  o->log = log_on;
  o->user = q;
}

kf_status kf_quiet_step(kf_quiet *q) {
  q->done++;
  return kf_progress(q->ctx, q->what, q->done, q->total);
}

void kf_quiet_end(kf_quiet *q) {
  if (q->ctx == NULL) return;
  kf_ctx_options *o = &q->ctx->options;
  o->progress = q->progress;
  o->log = q->log;
  o->user = q->user;
  q->ctx = NULL;
}
