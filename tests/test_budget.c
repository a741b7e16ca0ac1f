/* test_budget.c - memory that threads share: never more than the budget, in order of requests,
 * oversized requests alone; and pictures that are read within it. */
#include "files.h"

#include "encode/image.h"

#include <stdatomic.h>
#include <time.h>

#define GOLDEN KOOFU_SOURCE_DIR "/tests/golden/images/"

enum { MOST = 100, TURNS = 400 };

typedef struct job {
  kf_budget budget;
  atomic_uint_fast64_t used;  /* granted */
  atomic_uint_fast64_t alone; /* requests above the budget that were granted */
} job;

/* An assertion must not fail on another thread than the test's. */
static kf_status wrong(uint64_t own, uint64_t all, kf_err *err) {
  return kf_fail(err, KF_ERR_INTERNAL, "%d bytes granted, %d in all", (int)own, (int)all);
}

static kf_status wish(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  job *j = argument;
  uint64_t seed = i, first = test_random(&seed) % 40, more = test_random(&seed) % 120;
  kf_budget_take(&j->budget, first);
  if (!kf_budget_try(&j->budget, first, more)) {
    kf_budget_give(&j->budget, first);
    kf_budget_take(&j->budget, first + more);
  }
  uint64_t own = first + more, all = atomic_fetch_add(&j->used, own) + own;
  uint64_t most = own > MOST ? own : MOST;
  if (all > most) return wrong(own, all, err);
  if (own > MOST) atomic_fetch_add(&j->alone, 1);
  nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
  all = atomic_load(&j->used);
  if (all > most) return wrong(own, all, err);
  atomic_fetch_sub(&j->used, own);
  kf_budget_give(&j->budget, own);
  return KF_OK;
}

TEST(never_exceeded) {
  AUTO(kf_ctx) *many = test_ctx(8, KF_ISA_AUTO);
  job j = {0};
  kf_budget_start(&j.budget, MOST);
  assert_ok(many, kf_parallel(many, TURNS, wish, &j));
  assert_int_equal(j.budget.used, 0);
  assert_true(atomic_load(&j.alone) > 10);
  kf_budget_stop(&j.budget);
}

TEST(without_waiting) {
  kf_budget b;
  kf_budget_start(&b, MOST);
  kf_budget_take(&b, 60);
  assert_false(kf_budget_try(&b, 0, 50)); /* for another */
  assert_true(kf_budget_try(&b, 0, 40));
  assert_false(kf_budget_try(&b, 60, 1));
  kf_budget_give(&b, 40);
  assert_true(kf_budget_try(&b, 60, 1000)); /* alone */
  assert_false(kf_budget_try(&b, 0, 1));
  kf_budget_give(&b, 1060);
  kf_budget_take(&b, UINT64_MAX);
  assert_false(kf_budget_try(&b, 0, 1));
  kf_budget_give(&b, UINT64_MAX);
  assert_int_equal(b.used, 0);
  kf_budget_stop(&b);
}

/* Memory taken for a picture is given back, whether or not it can be read. */
static kf_status read_sum(const char *path, uint64_t most, kf_budget *b, kf_image *out,
                          uint64_t *sum, kf_err *err) {
  kf_extent extent = kf_extent_file(path);
  return kf_image_read_sum(&extent, most, b, out, sum, err);
}

TEST(pictures) {
  static const char *const names[] = {GOLDEN "exif6.png", GOLDEN "exif6-le.jpg",
                                      GOLDEN "exif6.webp", GOLDEN "grey-progressive.jpg",
                                      GOLDEN "animated-part.webp"};
  kf_budget b;
  kf_err err;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (uint64_t most = 1; most <= 1 << 30; most *= 1 << 10) {
      kf_image image, plain;
      uint64_t sum = 0, again = 0;
      kf_budget_start(&b, most);
      kf_status status = read_sum(names[i], 0, &b, &image, &sum, &err);
      if (status != KF_OK && strstr(err.message, "this build of koofu does not read")) break;
      assert_int_equal(status, KF_OK);
      assert_int_equal(read_sum(names[i], 0, NULL, &plain, &again, &err), KF_OK);
      uint64_t pixels = (uint64_t)image.width * image.height;
      assert_int_equal(b.used, image.taken);
      assert_true(image.taken >= 3 * pixels && image.taken < 3 * pixels + 100 * 1000);
      assert_true(sum == again && image.width == plain.width && image.height == plain.height);
      assert_memory_equal(image.rgb, plain.rgb, 3 * pixels);
      kf_image_clear(&plain);
      kf_image_clear(&image);
      assert_int_equal(b.used, 0);
      /* Too many pixels, no picture, no file. */
      assert_int_equal(read_sum(names[i], 1, &b, &image, NULL, &err), KF_ERR_DATA);
      assert_int_equal(read_sum(write_text("x.png", "x"), 0, &b, &image, NULL, &err), KF_ERR_DATA);
      assert_int_equal(read_sum(at("none.png"), 0, &b, &image, NULL, &err), KF_ERR_IO);
      assert_int_equal(b.used, 0);
      kf_budget_stop(&b);
    }
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
