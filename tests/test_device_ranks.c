/* test_device_ranks.c - ranks that have devices: the same bytes as one process on the CPU, a device
 * for each rank, and no rank hangs when another's device fails. The ranks are threads. With the
 * twin, or with the plug-in in KOOFU_TEST_PLUGIN. */
#include "device.h"
#include "thread_ranks.h"
#include "world.h"

#include "device/device.h"

enum { N = 700, D = 10, K = 4 };

static kf_status open_world(kf_ctx *ctx, const world *w, kf_data **data) {
  return kf_data_open_memory(ctx, w->rows, N, D, w->labels, NULL, K, data);
}

static kf_status run_stats(kf_ctx *ctx, void *argument, session_log *log) {
  kf_data *data;
  kf_stats *stats;
  KF_TRY(open_world(ctx, argument, &data));
  keep_data(data);
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &stats));
  keep_stats(stats);
  KF_TRY(kf_stats_accumulate(ctx, stats, data, NULL, NULL)); /* again, to existing statistics */
  NOTE(log, stats->rows);
  note(log, stats->counts, K * sizeof *stats->counts);
  note(log, stats->sums, (size_t)K * D * sizeof *stats->sums);
  note(log, stats->moments, (size_t)D * (D + 1) / 2 * sizeof *stats->moments);
  return KF_OK;
}

static kf_status run_use(kf_ctx *ctx, void *argument, session_log *log) {
  const world *w = argument;
  static _Thread_local int32_t classes[N];
  static _Thread_local double scores[N], probabilities[N];
  static _Thread_local float mapped[N * D];
  kf_data *data;
  kf_stats *stats;
  kf_model *model;
  kf_eval_result result = {0};
  KF_TRY(open_world(ctx, w, &data));
  keep_data(data);
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &stats));
  keep_stats(stats);
  KF_TRY(kf_fit_stats(ctx, stats, paper(), &model));
  keep_model(model);
  KF_TRY(kf_transform(ctx, model, w->rows, N, NULL, mapped));
  note(log, mapped, (size_t)N * kf_model_dim_out(model) * sizeof *mapped);
  kf_classify_options o = {.temperature = 8};
  KF_TRY(kf_classify_probabilities(ctx, model, w->rows, N, &o, classes, scores, probabilities));
  note(log, classes, sizeof classes);
  note(log, scores, sizeof scores);
  note(log, probabilities, sizeof probabilities);
  KF_TRY(kf_eval(ctx, model, data, NULL, &result));
  NOTE(log, result);
  return KF_OK;
}

/* Lambda is chosen by leaving rows out; each rank handles its share of them. */
static kf_status run_choose(kf_ctx *ctx, void *argument, session_log *log) {
  kf_data *data;
  KF_TRY(open_world(ctx, argument, &data));
  keep_data(data);
  for (int paper = 0; paper < 2; paper++) {
    kf_fit_options o = {.method = paper ? KF_METHOD_PAPER : KF_METHOD_SHRUNK};
    kf_model *model;
    KF_TRY(kf_fit(ctx, data, &o, &model, NULL));
    keep_model(model);
    NOTE(log, model->map.lambda);
    NOTE(log, model->temperature);
    note(log, model->map.transform, (size_t)D * D * sizeof *model->map.transform);
  }
  return KF_OK;
}

TEST(same_bytes) {
  AUTO(world) w = make_world(N, D, K, 1, 3);
  kf_twin_state *twin = device_twin();
  device_show(3);
  assert_same_on_ranks(run_stats, &w);
  assert_same_on_ranks(run_use, &w);
  assert_same_on_ranks(run_choose, &w);
  if (twin != NULL) {
    assert_true(twin->moments > 0 && twin->mapped > 0 && twin->odds > 0 && twin->scored > 0);
    assert_int_equal(twin->used, 0);
  }
}

/* Ranks take one device each, in turn, unless they are told which. */
static kf_status run_find(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  const kf_device_list *found;
  KF_TRY(kf_devices_find(ctx, &found));
  for (uint32_t i = 0; i < found->n; i++) NOTE(log, found->devices[i].number);
  return KF_OK;
}

TEST(a_device_each) {
  device_need(3);
  session of[MOST_RANKS] = {{0}};
  const char *const names[] = {"cuda", "auto", "cuda:2", "cuda:1,cuda:0"};
  for (size_t t = 0; t < 4; t++) {
    ranks_device = names[t];
    run_ranks(of, 4, run_find, NULL);
    for (uint32_t i = 0; i < 4; i++) {
      uint32_t wanted[] = {t < 2 ? i % 3 : t == 2 ? 2 : 1, 0};
      assert_int_equal(of[i].status, KF_OK);
      assert_int_equal(of[i].log.n, (t == 3 ? 2 : 1) * sizeof *wanted);
      assert_memory_equal(of[i].log.bytes, wanted, of[i].log.n);
      free(of[i].log.bytes);
    }
  }
}

/* The device of one rank is lost in some call: all ranks end, with its message. */
TEST(lost) {
  enum { CALLS_OF_FITS = 12 }; /* their statistics, at least */
  kf_twin_state *twin = device_need_twin();
  AUTO(world) w = make_world(N, D, K, 1, 3);
  twin->devices = 3;
  for (uint64_t call = 1; call < 80; call += 3) {
    session of[MOST_RANKS] = {{0}};
    twin->lose_call = call;
    run_ranks(of, 3, call > CALLS_OF_FITS || call % 2 == 1 ? run_use : run_choose, &w);
    for (uint32_t i = 0; i < 3; i++) {
      assert_int_equal(of[i].status, KF_ERR_IO);
      assert_non_null(strstr(of[i].message, "the device was lost"));
      free(of[i].log.bytes);
    }
    assert_int_equal(twin->used, 0);
  }
}

static int start(void **state) {
  ranks_device = "cuda";
  ranks_plugin = device_plugin();
  return device_reset(state);
}

FIXTURES(.before = device_keep, .after = device_let_go, .before_each = start,
         .after_each = device_reset);
