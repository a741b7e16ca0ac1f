/* budget.c - a memory budget that threads share, for allocations that a single file can make large.
 *
 * A request for more than is left waits until enough has been given back. Requests are served in
 * order, so small ones cannot starve a large one. A request larger than the whole budget is granted
 * once nothing else is taken, so work proceeds whatever the budget. A waiter holds nothing, so
 * there is no deadlock. */
#include "base/base.h"

void kf_budget_start(kf_budget *b, uint64_t most) {
  *b = (kf_budget){.most = most};
  pthread_mutex_init(&b->lock, NULL);
  pthread_cond_init(&b->changed, NULL);
}

void kf_budget_stop(kf_budget *b) {
  pthread_cond_destroy(&b->changed);
  pthread_mutex_destroy(&b->lock);
}

static bool fits(const kf_budget *b, uint64_t own, uint64_t more) {
  return b->used == own || (b->used <= b->most && more <= b->most - b->used);
}

void kf_budget_take(kf_budget *b, uint64_t bytes) {
  pthread_mutex_lock(&b->lock);
  uint64_t turn = b->asked++;
  while (turn != b->served || !fits(b, 0, bytes)) pthread_cond_wait(&b->changed, &b->lock);
  b->served++;
  b->used += bytes;
  pthread_cond_broadcast(&b->changed);
  pthread_mutex_unlock(&b->lock);
}

bool kf_budget_try(kf_budget *b, uint64_t own, uint64_t more) {
  pthread_mutex_lock(&b->lock);
  bool granted = b->asked == b->served && fits(b, own, more);
  if (granted) b->used += more;
  pthread_mutex_unlock(&b->lock);
  return granted;
}

void kf_budget_give(kf_budget *b, uint64_t bytes) {
  pthread_mutex_lock(&b->lock);
  b->used -= bytes;
  pthread_cond_broadcast(&b->changed);
  pthread_mutex_unlock(&b->lock);
}
