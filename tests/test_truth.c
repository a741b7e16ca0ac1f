/* test_truth.c - files of correct classes, class sets, and accuracies by them. */
#include "galleries.h"

#include "score/score.h"

static kf_truth *must_load(const char *path, const char *classes, const char *ids) {
  kf_truth *t = NULL;
  assert_ok(ctx, kf_truth_load(ctx, path, &(kf_truth_options){.classes = classes, .ids = ids}, &t));
  return t;
}

static void refuse(const char *path, const char *classes, const char *ids, kf_status status,
                   const char *file, const char *cause) {
  kf_truth *t = NULL;
  kf_status actual =
      kf_truth_load(ctx, path, &(kf_truth_options){.classes = classes, .ids = ids}, &t);
  assert_null(t);
  assert_failed(actual, status, file, cause);
}

/* "1 2|-|0" for rows with classes 1 and 2, none, 0. */
static void assert_rows(const kf_truth *t, const char *wanted) {
  char got[512] = "", *end = got;
  for (uint64_t row = 0; row < kf_truth_rows(t); row++) {
    const int32_t *classes = NULL;
    size_t n = kf_truth_row(t, row, &classes);
    if (row > 0) *end++ = '|';
    for (size_t i = 0; i < n; i++) end += sprintf(end, i > 0 ? " %d" : "%d", classes[i]);
    if (n == 0) *end++ = '-';
    *end = '\0';
  }
  assert_string_equal(got, wanted);
}

/* --- files ----------------------------------------------------------------------------------- */

TEST(json) {
  kf_truth *t = must_load(write_text("t.json", " [[], [3, 1],[0 ] ,[2,2,1]]\n"), NULL, NULL);
  assert_rows(t, "-|3 1|0|2 1");
  assert_int_equal(kf_truth_classes(t), 4);
  assert_null(kf_truth_class_name(t, 0));
  const int32_t *classes = NULL;
  assert_int_equal(kf_truth_row(t, 4, &classes), 0); /* there is no such row */
  kf_truth_free(t);
  t = must_load(write_text("n.json", "[[\"b\"], [], [\"a\", \"b\"]]"), NULL, NULL);
  assert_rows(t, "0|-|1 0");
  assert_string_equal(kf_truth_class_name(t, 1), "a");
  kf_truth_free(t);
}

TEST(json_by_ids) {
  const char *path = write_text("t.json", "[[5],[],[6, 7]]");
  const char *ids = write_text("ids.txt", "val/X_val_00000003.JPEG\nX_val_1\nX_val_00000002.png\n"
                                          "X_val_00000004\nX_val_00000003\n");
  AUTO(kf_truth) *t = must_load(path, NULL, ids);
  assert_rows(t, "6 7|5|-|-|6 7");
}

TEST(csv) {
  const char *path = write_text("t.csv", "\xEF\xBB\xBFid,original_label,proposed_labels,extra\r\n"
                                         "a_1.JPEG,4,\"689, 601\",+\r\n"
                                         "\"b,2.JPEG\",4,,*\n"
                                         "c/d/e.f.png,4,3,\"say \"\"no\"\"\"\n");
  kf_truth *t = must_load(path, NULL, NULL);
  assert_rows(t, "689 601|-|3");
  kf_truth_free(t);
  t = must_load(path, NULL, write_text("ids.txt", "x/e.f\nq\nb,2\n/a_1.jpg"));
  assert_rows(t, "3|-|-|689 601");
  kf_truth_free(t);
  t = must_load(write_text("u.csv", "label,name\n2,x\n,y\n"), NULL, NULL);
  assert_rows(t, "2|-");
  kf_truth_free(t);
}

TEST(text) {
  kf_truth *t = must_load(write_text("t.txt", "3, 1\n\n0\t2\r\n7,\n"), NULL, NULL);
  assert_rows(t, "3 1|-|0 2|7");
  kf_truth_free(t);
  /* In a line with tabs, commas belong to the names; numbers after a name are names. */
  t = must_load(write_text("n.txt", "dog, wild\tcat\n911\ncat , dog\n"), NULL, NULL);
  assert_rows(t, "0 1|2|1 3");
  assert_string_equal(kf_truth_class_name(t, 0), "dog, wild");
  assert_string_equal(kf_truth_class_name(t, 2), "911");
  kf_truth_free(t);
}

TEST(names_for_numbers) {
  const char *list = write_text("list.txt", "cat\ndog\neel\n");
  kf_truth *t = must_load(write_text("t.txt", "2,0\n1\n"), list, NULL);
  assert_rows(t, "2 0|1");
  assert_int_equal(kf_truth_classes(t), 3);
  assert_string_equal(kf_truth_class_name(t, 2), "eel");
  assert_null(kf_truth_class_name(t, 3)); /* there is no such class */
  kf_truth_free(t);
  t = must_load(write_text("t.txt", "eel,cat\ndog\n"), list, NULL);
  assert_rows(t, "2 0|1");
  kf_truth_free(t);
  refuse(write_text("t.txt", "2\n0,3\n"), list, NULL, KF_ERR_DATA, "t.txt",
         "line 2: '3' is not a class of");
  refuse(write_text("t.txt", "eel\n\ncow\n"), list, NULL, KF_ERR_DATA, "t.txt",
         "line 3: 'cow' is not a class of");
  refuse(write_text("t.json", "[[1],[2,3]]"), list, NULL, KF_ERR_DATA, "t.json",
         "entry 1: '3' is not a class of");
}

TEST(bad_files) {
  static const struct {
    const char *name, *text, *cause;
  } bad[] = {
      {"t.json", "[[1],[2,3]", "is not valid JSON at its byte 10"},
      {"t.json", "[[1],2]", "entry 1 is not a list of classes"},
      {"t.json", "[[1],[null]]", "entry 1 holds something other than classes"},
      {"t.json", "[[1],[2.5]]", "entry 1: '2.5' is not a whole number"},
      {"t.json", "[[1],[1e3]]", "'1e3' is not a whole number"},
      {"t.json", "[[NaN]]", "is not valid JSON at its byte 2"},
      {"t.json", "[[1],[\"a\"]]", "is a name, but the classes before it are numbers"},
      {"t.json", "[[\"a\"],[1]]", "is a number, but the classes before it are names"},
      {"t.json", "[[\"\"]]", "is not a class"},
      {"t.json", "{\"a\": []}", "is not a list of lists of classes"},
      {"t.json", "[]", "the file has no entries"},
      {"t.json", "", "is empty"},
      {"t.json", "[[-1]]", "'-1' is negative"},
      {"t.json", "[[4194304]]", "'4194304' is too large"},
      {"t.json", "[[99999999999999999999999999]]", "is too large"},
      {"t.txt", "1\nnan\n", "line 2: 'nan' is not a class number"},
      {"t.txt", "1\n2,,3\n", "line 2: '2,,3' has an empty class"},
      {"t.txt", "1\n-2\n", "line 2: '-2' is negative"},
      {"t.txt", "1\n2.0\n", "'2.0' is not a class number"},
      {"t.txt", "", "is empty"},
      {"t.txt", "a\n\xff\n", "line 2 is not valid UTF-8"},
      {"t.csv", "", "is empty"},
      {"t.csv", "id,truth\na,1\n", "has no column 'proposed_labels'"},
      {"t.csv", "id,labels\n", "the file has no entries"},
      {"t.csv", "id,labels\na\n", "line 2 has 1 fields, but the header needs 2"},
      {"t.csv", "id,labels\na,\"1\n", "line 2: 'a,\"1' has a quotation mark that is not closed"},
      {"t.csv", "id,labels\na,\"1\"2\n", "has text after a quoted field"},
      {"t.csv", "id,labels\n.,1\n,1\n", "line 3 has no id"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refuse(write_text(bad[i].name, bad[i].text), NULL, NULL, KF_ERR_DATA, bad[i].name,
           bad[i].cause);
  refuse(write_bytes("t.txt", "1\n\0\n", 4), NULL, NULL, KF_ERR_DATA, "t.txt", "NUL");
  refuse(at("absent.json"), NULL, NULL, KF_ERR_IO, "absent.json", "");
  AUTOFREE char *huge = malloc((64u << 20) + 1);
  memset(huge, ' ', (64u << 20) + 1);
  refuse(write_bytes("huge.json", huge, (64u << 20) + 1), NULL, NULL, KF_ERR_DATA, "huge.json",
         "more than the limit of");
  unlink(at("huge.json"));
  refuse(write_bytes("long.txt", huge, 70000), NULL, NULL, KF_ERR_DATA, "long.txt",
         "line 1 is longer than");
}

TEST(bad_ids) {
  const char *csv_path = write_text("t.csv", "id,labels\na.png,1\nb,2\nx/a.JPEG,3\n");
  const char *ids = write_text("ids.txt", "a\nb\n");
  refuse(csv_path, NULL, ids, KF_ERR_DATA, "t.csv", "line 4 repeats the id 'a' of line 2");
  csv_path = write_text("t.csv", "id,labels\na.png,1\n");
  refuse(csv_path, NULL, write_text("no.txt", "c\nd\n"), KF_ERR_DATA, "no.txt",
         "none of its 2 ids has an entry in");
  refuse(csv_path, NULL, write_text("no.txt", "a\n\n"), KF_ERR_DATA, "no.txt", "line 2 is empty");
  refuse(csv_path, NULL, at("absent.txt"), KF_ERR_IO, "absent.txt", "");
  refuse(write_text("t.csv", "labels\n1\n"), NULL, ids, KF_ERR_DATA, "t.csv", "have no ids");
  refuse(write_text("t.txt", "1\n2\n"), NULL, ids, KF_ERR_DATA, "t.txt", "have no ids");
  refuse(write_text("t.json", "[[1]]"), NULL, ids, KF_ERR_DATA, "ids.txt",
         "line 1: 'a' does not end in _val_");
  refuse(write_text("t.json", "[[1]]"), NULL, write_text("z.txt", "x_val_0\n"), KF_ERR_DATA,
         "z.txt", "does not end in _val_ and a number from 1");
}

/* --- accuracies ------------------------------------------------------------------------------ */

/* Every third row has one right class, every third two, every third none. */
static const char *write_truth(const world *w, uint32_t shift) {
  char *all = malloc(w->n * 16 + 1), *end = all;
  for (uint64_t i = 0; i < w->n; i++) {
    int32_t other = (w->labels[i] + (int32_t)shift) % CLASSES;
    if (i % 3 == 0) end += sprintf(end, "%d", w->labels[i]);
    if (i % 3 == 1) end += sprintf(end, "%d,%d", other, w->labels[i]);
    *end++ = '\n';
  }
  const char *path = write_bytes("truth.txt", all, (size_t)(end - all));
  free(all);
  return path;
}

/* By definition: the answers of kf_classify among all classes or those of a mask. */
static kf_eval_result naive(const kf_model *m, const world *w, const kf_truth *t, int raw,
                            const unsigned char *mask) {
  int32_t found[CLASSES];
  kf_eval_result r = {.rows = w->n};
  for (uint64_t i = 0; i < w->n; i++) {
    const int32_t *classes = NULL;
    size_t n = kf_truth_row(t, i, &classes), known = 0;
    for (size_t c = 0; c < n; c++) known += mask == NULL || mask[classes[c]];
    r.n_excluded += n == 0;
    r.n_absent += n > 0 && known == 0;
    if (known == 0) continue;
    r.n++;
    assert_ok(ctx, kf_classify(ctx, m, w->rows + i * w->dim, 1,
                               &(kf_classify_options){.top = CLASSES, .raw = raw}, found, NULL));
    int rank = 0, hit = 9;
    for (int a = 0; a < CLASSES; a++) {
      if (mask != NULL && !mask[found[a]]) continue;
      for (size_t c = 0; c < n; c++)
        if (classes[c] == found[a] && rank < hit) hit = rank;
      rank++;
    }
    *(raw ? &r.raw_top1 : &r.top1) += hit == 0;
    *(raw ? &r.raw_top5 : &r.top5) += hit < 5;
  }
  return r;
}

static void check_eval(const kf_model *m, const kf_data *data, const world *w, const kf_truth *t,
                       const kf_class_set *set, const unsigned char *mask) {
  kf_eval_result got, mapped = naive(m, w, t, 0, mask), raw = naive(m, w, t, 1, mask);
  assert_ok(ctx, kf_eval(ctx, m, data, &(kf_eval_options){.truth = t, .set = set}, &got));
  assert_true(got.rows == w->n && got.n == mapped.n && got.n_excluded == mapped.n_excluded);
  assert_true(got.n_absent == mapped.n_absent && got.n_unlabelled == 0 && got.n_bad == 0);
  assert_true(got.top1 == mapped.top1 && got.top5 == mapped.top5);
  assert_true(got.raw_top1 == raw.raw_top1 && got.raw_top5 == raw.raw_top5);
  assert_true(got.top1 > 0 && got.top1 < got.n);
}

TEST(eval_by_truth) {
  AUTO(world) w = make_world(900, DIM, CLASSES, 1, 31);
  for (uint64_t i = 0; i < w.n * DIM; i++) w.rows[i] *= 1 + 0.02f * (float)(i % 7);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, NULL, 0); /* labels are not needed */
  kf_truth *t = must_load(write_truth(&w, 2), NULL, NULL);
  check_eval(m, data, &w, t, NULL, NULL);

  static const char *const some[] = {"1", "4", "5"};
  const unsigned char mask[CLASSES] = {[1] = 1, [4] = 1, [5] = 1};
  AUTO(kf_class_set) *set = NULL;
  assert_ok(ctx, kf_class_set_new(ctx, some, 3, &set));
  check_eval(m, data, &w, t, set, mask);
  kf_eval_result r;
  assert_ok(ctx, kf_eval(ctx, m, data, &(kf_eval_options){.truth = t, .set = set}, &r));
  assert_int_equal(r.absent_classes, 2); /* 0 and 3; the others have company */
  kf_truth_free(t);

  t = must_load(write_text("short.txt", "1\n2\n"), NULL, NULL);
  assert_error(ctx, KF_ERR_DATA, "has entries for 2 rows, but the data have 900",
               kf_eval(ctx, m, data, &(kf_eval_options){.truth = t}, &r));
  kf_truth_free(t);
  t = must_load(write_truth(&w, 2), write_text("six.txt", "a\nb\nc\nd\ne\nf\n"), NULL);
  assert_error(ctx, KF_ERR_DATA, "have names, those of the model only numbers",
               kf_eval(ctx, m, data, &(kf_eval_options){.truth = t}, &r));
  kf_truth_free(t);
}

/* A model with names, and a truth whose numbers mean them in another order. */
TEST(truth_by_name) {
  AUTO(world) w = make_world(300, DIM, CLASSES, 1, 32);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  AUTO(kf_stats) *s = NULL;
  AUTO(kf_model) *m = NULL;
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &s));
  assert_ok(ctx, kf_fit_stats(ctx, s, paper(), &m));
  kf_eval_result by_labels, by_truth;
  assert_ok(ctx, kf_eval(ctx, m, data, NULL, &by_labels));

  char all[300 * 2 + 1] = "";
  for (uint64_t i = 0; i < w.n; i++) sprintf(all + 2 * i, "%d\n", (w.labels[i] + 2) % CLASSES);
  const char *path = write_text("truth.txt", all);
  kf_truth *t = must_load(path, write_text("turned.txt", "eel\nfox\nant\nbee\ncat\ndog\n"), NULL);
  assert_ok(ctx, kf_eval(ctx, m, data, &(kf_eval_options){.truth = t}, &by_truth));
  assert_memory_equal(&by_labels, &by_truth, sizeof by_truth);
  kf_truth_free(t);
  t = must_load(path, NULL, NULL);
  assert_error(ctx, KF_ERR_DATA, "the classes of the model have names, those of ",
               kf_eval(ctx, m, data, &(kf_eval_options){.truth = t}, &by_truth));
  assert_int_equal(kf_errhint(ctx), KF_HINT_TRUTH_CLASSES);
  kf_truth_free(t);
  /* Classes that the model does not have are left out. */
  t = must_load(path, write_text("other.txt", "eel\nfox\nant\nbee\ncow\nhen\n"), NULL);
  assert_ok(ctx, kf_eval(ctx, m, data, &(kf_eval_options){.truth = t}, &by_truth));
  assert_true(by_truth.n == 200 && by_truth.n_absent == 100 && by_truth.absent_classes == 2);
  kf_truth_free(t);
}

TEST(gallery_by_truth) {
  AUTO(world) w = make_world(300, DIM, CLASSES, 1, 33), q = make_world(240, DIM, CLASSES, 1, 34);
  AUTO(kf_gallery) *g = plain_gallery(w.rows, w.n, DIM, w.labels, KF_METRIC_COSINE);
  AUTO(kf_data) *data = data_of(q.rows, q.n, DIM, NULL, 0);
  AUTO(kf_truth) *t = must_load(write_truth(&q, 1), NULL, NULL);
  static const char *const some[] = {"0", "3"};
  AUTO(kf_class_set) *set = NULL;
  assert_ok(ctx, kf_class_set_new(ctx, some, 2, &set));
  for (int with_set = 0; with_set < 2; with_set++) {
    static const uint32_t k[] = {1, 7};
    kf_gallery_eval_options o = {.k = k, .n_k = 2, .truth = t, .set = with_set ? set : NULL};
    kf_eval_result counts;
    kf_hits hits[2];
    assert_ok(ctx, kf_gallery_eval(ctx, g, data, &o, &counts, hits, NULL));
    for (int j = 0; j < 2; j++) {
      uint64_t top1 = 0, top5 = 0, n = 0;
      for (uint64_t i = 0; i < q.n; i++) {
        int32_t found[CLASSES];
        const int32_t *classes = NULL;
        size_t right = kf_truth_row(t, i, &classes);
        kf_vote_options v = {.k = k[j], .top = CLASSES};
        assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows + i * DIM, 1, &v, found, NULL, NULL));
        int hit = 9, known = 0;
        for (size_t c = 0; c < right; c++) {
          if (with_set && classes[c] != 0 && classes[c] != 3) continue;
          known = 1;
          for (int a = 0; a < CLASSES; a++)
            if (a < hit && found[a] == classes[c]) hit = a;
        }
        n += (uint64_t)known;
        top1 += hit == 0;
        top5 += hit < 5;
      }
      assert_true(counts.n == n && hits[j].top1 == top1 && hits[j].top5 == top5);
      assert_true(counts.n_excluded == 80 && counts.rows == 240);
      assert_true(counts.n + counts.n_absent == 160 && (counts.n_absent > 0) == with_set);
    }
  }
  /* With leave-one-out, the set selects the rows that are scored. */
  kf_gallery_eval_options o = {.set = set};
  kf_eval_result counts;
  kf_hits hits;
  assert_ok(ctx, kf_gallery_eval(ctx, g, NULL, &o, &counts, &hits, NULL));
  assert_true(counts.n == 100 && counts.n_absent == 200 && counts.absent_classes == 4);
}

TEST(sets) {
  kf_class_set *set = NULL;
  assert_ok(ctx, kf_class_set_load(ctx, write_text("s.txt", "b\na\n"), &set));
  assert_int_equal(kf_class_set_size(set), 2);
  assert_string_equal(kf_class_set_name(set, 0), "b");
  assert_null(kf_class_set_name(set, 2));
  assert_true(kf_class_set_has(set, "a") && !kf_class_set_has(set, "c"));
  AUTO(world) w = make_world(60, DIM, CLASSES, 1, 35);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, 0);
  kf_eval_result r;
  assert_error(ctx, KF_ERR_DATA, "line 1 is 'b'",
               kf_eval(ctx, m, data, &(kf_eval_options){.set = set}, &r));
  kf_class_set_free(set);
  assert_ok(ctx, kf_class_set_load(ctx, write_text("s.txt", "77\n99999999999999999999\n"), &set));
  assert_error(ctx, KF_ERR_DATA, "no class in it is a class of the model",
               kf_eval(ctx, m, data, &(kf_eval_options){.set = set}, &r));
  kf_class_set_free(set);
  /* One class, and all its rows are right. */
  assert_ok(ctx, kf_class_set_load(ctx, write_text("s.txt", "77\n2\n"), &set));
  assert_ok(ctx, kf_eval(ctx, m, data, &(kf_eval_options){.set = set}, &r));
  assert_true(r.n == 10 && r.top1 == 10 && r.top5 == 10 && r.n_absent == 50);
  kf_class_set_free(set);
  set = NULL;
  assert_failed(kf_class_set_load(ctx, write_text("s.txt", "a\nb\na\n"), &set), KF_ERR_DATA,
                "s.txt", "line 3 repeats");
  assert_null(set);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
