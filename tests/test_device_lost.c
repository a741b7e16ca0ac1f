/* test_device_lost.c - devices that fail or run out of memory in the middle: no work is lost, and
 * errors and notes report it. With libkoofu-between.so in front of the twin, where faults are
 * simulated, or of a real plug-in, where libkoofu-spoil.so makes the GPU itself fail. A process
 * whose GPU has failed cannot use it any more, so each case has a process of its own, and this one
 * opens none. */
#include "device.h"
#include "world.h"

#include "device/device.h"
#include "search/device_rows.h"
#include "search/search.h"

#include <sys/wait.h>

/* --- processes -------------------------------------------------------------------------------- */

enum { FINE, WRONG };
typedef int (*child_fn)(const void *argument);

/* Starts a child, which is killed if it hangs. */
static pid_t begin(child_fn work, const void *argument) {
  fflush(stdout);
  fflush(stderr);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid > 0) return pid;
  alarm(1000);
  int result = work(argument);
  fflush(stderr);
  _exit(result);
}

/* What a child reports at its end. */
static int end_of(pid_t pid) {
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status)) fail_msg("signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}

#define CHECK(ctx, holds)                                                                          \
  do {                                                                                             \
    if (holds) break;                                                                              \
    fprintf(stderr, "%s:%d: %s; %s; %u notes: %s\n", __FILE__, __LINE__, #holds, kf_errmsg(ctx),   \
            device_n_heard, device_n_heard > 0 ? device_heard[(device_n_heard - 1) % 8] : "");     \
    return WRONG;                                                                                  \
  } while (0)

static kf_between_state *need_between(void) {
  kf_between_state *between = device_between();
  if (between == NULL) test_skip("plug-in between");
  return between;
}

/* --- work ------------------------------------------------------------------------------------- */

typedef kf_status (*work_fn)(kf_ctx *ctx, const world *w, void *out);
#define OUT_BYTES ((size_t)1 << 18)

static kf_status search_all(kf_ctx *ctx, const world *w, void *out) {
  AUTO(kf_index) *index = NULL;
  kf_status status = kf_index_new(ctx, w->rows, w->n, w->dim, NULL, &index);
  if (status == KF_OK)
    status = kf_search(ctx, index, w->rows, 500, 7, NULL, (int64_t *)out, NULL, NULL);
  return status;
}

static kf_status open_rows(kf_ctx *ctx, const world *w, kf_data **data) {
  return kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes, data);
}

/* Statistics of a context; everything made from them must be the same as on the CPU. */
static kf_status add_all(kf_ctx *ctx, const world *w, void *out) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  kf_status status = open_rows(ctx, w, &data);
  if (status == KF_OK) status = kf_stats_new_from_data(ctx, data, NULL, &stats);
  if (status == KF_OK) {
    AUTO(kf_ctx) *cpu = device_ctx(1, "cpu");
    AUTO(kf_model) *model = fit(cpu, stats, 0.3, 0);
    status = kf_transform(cpu, model, w->rows, 1000, NULL, out);
  }
  return status;
}

static kf_status classify_all(kf_ctx *ctx, const world *w, void *out) {
  double *scores = out, *probabilities = scores + w->n;
  int32_t *classes = (int32_t *)(void *)(probabilities + w->n);
  kf_classify_options o = {.temperature = 5};
  AUTO(kf_ctx) *cpu = device_ctx(1, "cpu");
  AUTO(kf_stats) *stats = stats_of(cpu, w, 0);
  AUTO(kf_model) *model = fit(cpu, stats, 0.3, 0);
  kf_status status =
      kf_classify_probabilities(ctx, model, w->rows, w->n, &o, classes, scores, probabilities);
  return status;
}

/* --- a device that fails ---------------------------------------------------------------------- */

typedef struct scenario {
  work_fn work;
  const world *w;
  bool asked;
  uint64_t call; /* before which it fails */
} scenario;

/* The number of calls, at most 200. */
static int count_calls(const void *argument) {
  const scenario *s = argument;
  const kf_device_list *found;
  kf_between_state *between = device_between();
  AUTOFREE char *out = calloc(OUT_BYTES, 1);
  AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
  if (kf_devices_find(ctx, &found) != KF_OK || s->work(ctx, s->w, out) != KF_OK)
    fprintf(stderr, "%s\n", kf_errmsg(ctx));
  /* cppcheck-suppress memleak ; AUTOFREE frees out */
  return between->calls < 200 ? (int)between->calls : 200;
}

static int lose(const void *argument) {
  const scenario *s = argument;
  kf_between_state *between = device_between();
  AUTOFREE char *want = calloc(OUT_BYTES, 1), *got = calloc(OUT_BYTES, 1);
  const kf_device_list *found;
  AUTO(kf_ctx) *cpu = device_ctx(2, "cpu"), *ctx = device_ctx(2, "cuda");
  CHECK(cpu, s->work(cpu, s->w, want) == KF_OK);
  CHECK(ctx, kf_devices_find(ctx, &found) == KF_OK);
  ctx->devices->asked = s->asked; /* if not, as if chosen by itself, but for any amount of work */
  between->lose_call = s->call;
  kf_status status = s->work(ctx, s->w, got);
  CHECK(ctx, between->lose_call == 0);
  if (s->asked) {
    CHECK(ctx, status == KF_ERR_IO);
    CHECK(ctx, strstr(kf_errmsg(ctx), "cuda:0 (") != NULL);
    fprintf(stderr, "%s\n", kf_errmsg(ctx));
  } else {
    CHECK(ctx, status == KF_OK);
    CHECK(ctx, memcmp(got, want, OUT_BYTES) == 0);
    CHECK(ctx, device_n_heard == 1 && device_said("the CPU takes over: cuda:0 ("));
    memset(got, 0, OUT_BYTES);
    CHECK(ctx, s->work(ctx, s->w, got) == KF_OK); /* and continues, without a note */
    CHECK(ctx, memcmp(got, want, OUT_BYTES) == 0 && device_n_heard == 1);
  }
  return FINE;
}

/* In the first call, the third from last, and one in between. On a GPU each takes a while. */
static void lose_somewhere(work_fn work, int least) {
  enum { PLACES = 3 };
  need_between();
  AUTO(world) w = make_world(4000, 24, 6, 1, 5);
  scenario all[2][PLACES];
  pid_t pids[2][PLACES];
  int calls = end_of(begin(count_calls, &(scenario){.work = work, .w = &w}));
  assert_true(calls >= least);
  for (int asked = 0; asked < 2; asked++)
    for (int i = 0; i < PLACES; i++) {
      uint64_t call = 1 + (uint64_t)((calls - 3) * i / (PLACES - 1));
      all[asked][i] = (scenario){.work = work, .w = &w, .asked = asked != 0, .call = call};
      pids[asked][i] = begin(lose, &all[asked][i]);
    }
  int wrong = 0;
  for (int i = 0; i < 2 * PLACES; i++) wrong += end_of(pids[i % 2][i / 2]);
  assert_int_equal(wrong, 0);
}

TEST(lost_in_search) { lose_somewhere(search_all, 9); }
TEST(lost_in_statistics) { lose_somewhere(add_all, 4); }
TEST(lost_in_classify) { lose_somewhere(classify_all, 10); }

/* --- memory that is taken --------------------------------------------------------------------- */

enum { WHOLE, BYTES, PIECES, NOTHING, N_SHARES };
typedef struct shortage {
  int share; /* what fits */
  bool asked;
} shortage;

static float *made_rows(uint64_t n, uint32_t dim, uint64_t seed) {
  float *rows = malloc(n * dim * sizeof *rows);
  for (uint64_t i = 0; i < n * dim; i++) rows[i] = (float)test_uniform(&seed);
  return rows;
}

/* The least memory that must be left for this to fit. */
static uint64_t memory_for(const kf_device_api *api, uint64_t n, uint32_t dim, int share) {
  kf_dev_space space = {.metric = KF_DEV_COSINE, .dim = dim, .padded = dim};
  kf_dev_piece piece = {.space = &space, .n = n, .n_tiles = n / api->tile_rows + 10};
  uint64_t few = api->queries_bytes(&space, 16, 32, 4096), bytes = api->rows_bytes(&piece);
  piece.values = KF_DEV_F32;
  uint64_t whole = api->rows_bytes(&piece);
  if (share == WHOLE) return 3 * (few + whole);
  if (share == BYTES) return few + (bytes + whole) / 2;
  return share == PIECES ? few + bytes / 10 * 8 : few / 2;
}

static int starve(const void *argument) {
  const shortage *s = argument;
  kf_between_state *between = device_between();
  const kf_device_list *found;
  AUTO(kf_ctx) *cpu = device_ctx(0, "cpu"), *ctx = device_ctx(0, "cuda");
  CHECK(ctx, kf_devices_find(ctx, &found) == KF_OK);
  ctx->devices->asked = s->asked;
  uint64_t n = between->real ? 600000 : 30000, queries = 50;
  uint32_t dim = between->real ? 128 : 32, k = 10;
  AUTOFREE float *rows = made_rows(n, dim, 3), *asked = made_rows(queries, dim, 4);
  AUTOFREE int64_t *want = calloc(queries * k, sizeof *want),
                   *got = calloc(queries * k, sizeof *got);
  AUTO(kf_index) *index = NULL;
  CHECK(cpu, kf_index_new(cpu, rows, n, dim, NULL, &index) == KF_OK);
  CHECK(cpu, kf_search(cpu, index, asked, queries, k, NULL, want, NULL, NULL) == KF_OK);
  between->leave = memory_for(ctx->devices->device[0]->api, n, dim, s->share);
  kf_status status = kf_search(ctx, index, asked, queries, k, NULL, got, NULL, NULL);
  if (s->share == NOTHING && s->asked) {
    CHECK(ctx, status == KF_ERR_MEM && strstr(kf_errmsg(ctx), "are too few to search with"));
    fprintf(stderr, "%s\n", kf_errmsg(ctx));
  } else {
    CHECK(ctx, status == KF_OK);
    CHECK(ctx, memcmp(got, want, queries * k * sizeof *got) == 0);
  }
  if (s->share == NOTHING && !s->asked) {
    CHECK(ctx, device_n_heard == 1 && device_said("the CPU takes over: cuda:0 ("));
    fprintf(stderr, "%s\n", device_heard[0]);
  }
  if (s->share < NOTHING) {
    const kf_lane *lane = &index->devices->rows->lanes[0];
    fprintf(stderr, "%llu bytes left: %u piece(s)%s\n", (unsigned long long)between->leave,
            lane->n_pieces, lane->scores ? ", with values" : "");
    CHECK(ctx, device_n_heard == 0);
    CHECK(ctx, lane->scores == (s->share == WHOLE));
    CHECK(ctx, (lane->n_pieces > 1) == (s->share == PIECES));
  }
  return FINE;
}

TEST(memory_is_taken) {
  need_between();
  for (int share = 0; share < N_SHARES; share++)
    for (int asked = share < NOTHING; asked < 2; asked++)
      assert_int_equal(end_of(begin(starve, &(shortage){share, asked != 0})), FINE);
}
