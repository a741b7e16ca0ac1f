/* test_judging.c - errors by class, known against unknown rows, two classifiers, hierarchies. */
#include "galleries.h"

static world noisy_world(uint64_t n, uint64_t seed) {
  world w = make_world(n, DIM, CLASSES, 1, seed);
  for (uint64_t i = 0; i < w.n * DIM; i++) w.rows[i] += 0.4f * (float)test_normal(&seed);
  return w;
}

/* --- errors by class ------------------------------------------------------------------------- */

/* Counts by definition, from the answers of kf_classify. */
static void check_analysis(const kf_model *m, const kf_data *data, const world *w,
                           const kf_truth *truth, kf_metric metric, int raw) {
  AUTO(kf_analysis) *a = NULL;
  kf_analysis_options o = {.metric = metric, .raw = raw, .truth = truth};
  assert_ok(ctx, kf_analysis_new(ctx, m, data, &o, &a));
  kf_class_result want[CLASSES] = {{0}};
  uint64_t confused[CLASSES][CLASSES] = {{0}}, n = 0, top1 = 0;
  AUTOFREE double *margins = malloc(w->n * sizeof *margins);
  AUTOFREE int *hits = malloc(w->n * sizeof *hits);
  kf_classify_options c = {.top = CLASSES, .metric = metric, .raw = raw};
  for (uint64_t i = 0; i < w->n; i++) {
    int32_t found[CLASSES];
    double scores[CLASSES];
    const int32_t *right = &w->labels[i];
    size_t n_right = truth != NULL ? kf_truth_row(truth, i, &right) : 1;
    if (n_right == 0 || right[0] < 0) continue;
    assert_ok(ctx, kf_classify(ctx, m, w->rows + i * DIM, 1, &c, found, scores));
    int rank = CLASSES;
    for (int t = 0; t < CLASSES; t++)
      for (size_t r = 0; r < n_right; r++)
        if (t < rank && found[t] == right[r]) rank = t;
    margins[n] = fabs(scores[0] - scores[1]);
    hits[n++] = rank == 0;
    top1 += rank == 0;
    want[right[0]].n++;
    want[right[0]].top1 += rank == 0;
    want[right[0]].top5 += rank < 5;
    want[found[0]].answers++;
    if (rank > 0) confused[right[0]][found[0]]++;
  }
  assert_true(a->totals.rows == w->n && a->totals.n == n && a->totals.top1 == top1);
  assert_int_equal(a->n_classes, CLASSES);
  assert_memory_equal(a->classes, want, sizeof want);
  assert_true(top1 > n / 4 && top1 < n);

  size_t pairs = 0;
  for (int x = 0; x < CLASSES; x++)
    for (int y = 0; y < CLASSES; y++) pairs += confused[x][y] > 0;
  assert_int_equal(a->n_confusions, pairs);
  for (size_t i = 0; i < pairs; i++) {
    const kf_confusion *f = &a->confusions[i], *before = i > 0 ? f - 1 : NULL;
    assert_true(f->n == confused[f->truth][f->answer]);
    if (before != NULL)
      assert_true(before->n > f->n || (before->n == f->n &&
                                       (before->truth < f->truth || (before->truth == f->truth &&
                                                                     before->answer < f->answer))));
  }

  uint64_t in_bins = 0;
  assert_int_equal(a->n_bins, 10);
  for (size_t b = 0; b < a->n_bins; b++) {
    uint64_t rows = 0, right = 0;
    for (uint64_t i = 0; i < n; i++) {
      int in = margins[i] >= a->bins[b].low && margins[i] <= a->bins[b].high;
      rows += (uint64_t)in;
      right += (uint64_t)(in && hits[i]);
    }
    assert_true(rows == a->bins[b].n && right == a->bins[b].top1);
    assert_true(rows + 1 >= n / 10 && rows <= n / 10 + 1);
    assert_true(b == 0 || a->bins[b].low > a->bins[b - 1].high);
    in_bins += rows;
  }
  assert_true(in_bins == n);
}

TEST(errors_by_class) {
  AUTO(world) w = noisy_world(1003, 41);
  for (uint64_t i = 0; i < w.n; i += 11) w.labels[i] = -1;
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, 0);
  AUTO(kf_stats) *s = NULL;
  AUTO(kf_model) *m = NULL;
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &s));
  assert_ok(ctx, kf_fit_stats(ctx, s, paper(), &m));
  check_analysis(m, data, &w, NULL, KF_METRIC_COSINE, 0);
  check_analysis(m, data, &w, NULL, KF_METRIC_COSINE, 1);
  check_analysis(m, data, &w, NULL, KF_METRIC_EUCLIDEAN, 0);
  char *all = calloc(w.n, 8), *end = all;
  for (uint64_t i = 0; i < w.n; i++)
    end += i % 5 == 4 ? sprintf(end, "\n") : sprintf(end, "%d,%d\n", (int)(i % 4), (int)(i % 6));
  AUTO(kf_truth) *truth = NULL;
  assert_ok(ctx, kf_truth_load(ctx, write_text("t.txt", all), NULL, &truth));
  check_analysis(m, data, &w, truth, KF_METRIC_COSINE, 0);
  free(all);
}

/* Equal margins stay in one bin, and few rows give few bins. */
TEST(few_margins) {
  static const float rows[] = {4, 1, 4, 1, 4, 1, 1, 4};
  static const int32_t labels[] = {0, 0, 1, 1};
  world w = {.dim = 2, .classes = 2, .n = 4, .rows = (float *)rows, .labels = (int32_t *)labels};
  AUTO(kf_data) *data = data_of(rows, 4, 2, labels, 0);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = fit(ctx, s, 1, 0);
  AUTO(kf_analysis) *a = NULL;
  assert_ok(ctx, kf_analysis_new(ctx, m, data, &(kf_analysis_options){.raw = 1}, &a));
  assert_int_equal(a->n_bins, 2);
  assert_true(a->bins[0].n + a->bins[1].n == 4 && (a->bins[0].n == 3 || a->bins[1].n == 3));
  assert_int_equal(a->n_confusions, 1);
  assert_true(a->confusions[0].truth == 1 && a->confusions[0].answer == 0);
}

/* --- known and unknown ----------------------------------------------------------------------- */

static void best_scores(const kf_model *m, const world *w, kf_metric metric, double *out) {
  AUTOFREE int32_t *classes = malloc(w->n * sizeof *classes);
  kf_classify_options o = {.metric = metric};
  assert_ok(ctx, kf_classify(ctx, m, w->rows, w->n, &o, classes, out));
  for (uint64_t i = 0; metric == KF_METRIC_EUCLIDEAN && i < w->n; i++) out[i] = -out[i];
}

TEST(open_sets) {
  AUTO(world) w = noisy_world(333, 43), u = noisy_world(250, 44);
  for (uint64_t i = 0; i < u.n * DIM; i += 3) u.rows[i] = -u.rows[i] * 0.5f;
  memcpy(u.rows, w.rows, 60 * DIM * sizeof *w.rows); /* ties */
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  AUTO(kf_data) *known = data_of(w.rows, w.n, DIM, w.labels, 0);
  AUTO(kf_data) *unknown = data_of(u.rows, u.n, DIM, NULL, 0);
  static double a[333], b[250];
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++) {
    kf_open_set_result r;
    kf_analysis_options o = {.metric = (kf_metric)metric};
    assert_ok(ctx, kf_open_set(ctx, m, known, unknown, &o, &r));
    best_scores(m, &w, (kf_metric)metric, a);
    best_scores(m, &u, (kf_metric)metric, b);
    double pairs = 0;
    for (int i = 0; i < 333; i++)
      for (int j = 0; j < 250; j++) pairs += a[i] > b[j] ? 1 : a[i] < b[j] ? 0 : 0.5;
    assert_true(r.n_known == 333 && r.n_unknown == 250);
    assert_true(fabs(r.auroc - pairs / 333 / 250) < 1e-14);
    assert_true(r.auroc > 0.55 && r.auroc < 0.99);
    double threshold = metric == KF_METRIC_EUCLIDEAN ? -r.threshold : r.threshold;
    int reach = 0, above = 0, pass = 0;
    for (int i = 0; i < 333; i++) {
      reach += a[i] >= threshold;
      above += a[i] > threshold;
    }
    for (int j = 0; j < 250; j++) pass += b[j] >= threshold;
    assert_true(reach >= 0.95 * 333 && above < 0.95 * 333); /* no stricter threshold would do */
    assert_true(fabs(r.fpr95 - pass / 250.0) < 1e-15);
  }
  kf_open_set_result r;
  assert_ok(ctx, kf_open_set(ctx, m, known, known, NULL, &r));
  assert_true(r.auroc == 0.5);
}

/* --- two classifiers ------------------------------------------------------------------------- */

/* scipy.stats.binomtest(b, b + c).pvalue */
TEST(mcnemar) {
  static const struct {
    uint64_t b, c;
    double p;
  } known[] = {{1, 5, 0.21875},
               {10, 3, 0.09228515625},
               {317, 85, 1.48255749927632e-32},
               {59, 121, 4.434449263755176e-06},
               {1000, 1100, 0.030720707864242296},
               {123456, 124000, 0.2750229529405479},
               {40, 900, 1.001087028574915e-212},
               {499500, 500500, 0.31779469136333}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    double p = kf_mcnemar(known[i].b, known[i].c);
    if (fabs(p - known[i].p) > 1e-9 * known[i].p)
      fail_msg("%llu against %llu: %.17g, not %.17g", (unsigned long long)known[i].b,
               (unsigned long long)known[i].c, p, known[i].p);
    assert_true(p == kf_mcnemar(known[i].c, known[i].b));
  }
  assert_true(kf_mcnemar(0, 0) == 1 && kf_mcnemar(7, 7) == 1 && kf_mcnemar(7, 8) == 1);
  assert_true(kf_mcnemar(1, 0) == 1 && kf_mcnemar(0, 2) == 0.5 && kf_mcnemar(0, 3) == 0.25);
  assert_true(kf_mcnemar(0, 1u << 20) == 0);
  /* Both methods agree where they meet. */
  uint64_t half = UINT64_C(1) << 29, apart = 20000;
  double exact = kf_mcnemar(half - apart, half + apart);
  double normal = kf_mcnemar(half - apart, half + apart + 2);
  assert_true(exact > 0 && fabs(exact - normal) < 1e-3 * exact);
  assert_true(kf_mcnemar(UINT64_MAX, UINT64_MAX - 5) > 0.99);
}

TEST(comparison) {
  AUTO(world) w = noisy_world(600, 45);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  for (uint64_t i = 0; i < w.n; i += 10) w.labels[i] = -1;
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, 0);
  AUTO(kf_verdicts) *a = NULL, *b = NULL;
  assert_ok(ctx, kf_verdicts_new(ctx, m, data, NULL, &a));
  assert_ok(ctx, kf_verdicts_new(ctx, m, data, &(kf_analysis_options){.raw = 1}, &b));
  int32_t mapped[600], raw[600];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, NULL, mapped, NULL));
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.raw = 1}, raw, NULL));
  uint64_t table[2][2] = {{0}};
  char *all = calloc(w.n + 1, 32), *end = all + sprintf(all, "row\tclass1\tcosine1\n");
  for (uint64_t i = 0; i < w.n; i++) {
    if (w.labels[i] >= 0 && i % 7 != 0) table[mapped[i] == w.labels[i]][raw[i] == w.labels[i]]++;
    if (i % 7 != 0) end += sprintf(end, "%d\t%d\t0.5\n", (int)i, raw[i]);
  }
  AUTO(kf_verdicts) *from_file = NULL;
  assert_ok(ctx, kf_verdicts_read(ctx, write_text("a.tsv", all), data, NULL, NULL, &from_file));
  assert_true(kf_verdicts_counts(from_file)->n_bad == 86);
  assert_true(kf_verdicts_counts(a)->n_unlabelled == 60 && kf_verdicts_counts(a)->n == 540);
  kf_comparison r;
  assert_ok(ctx, kf_compare(ctx, a, from_file, &r));
  assert_true(r.rows == 600 && r.both == table[1][1] && r.neither == table[0][0]);
  assert_true(r.only_a == table[1][0] && r.only_b == table[0][1] && r.only_a > 0);
  assert_true(r.n == r.both + r.neither + r.only_a + r.only_b && r.n == 600 - 86 - 60 + 9);
  double n = (double)r.n, x = (double)r.only_a, y = (double)r.only_b;
  assert_true(fabs(r.difference - (x - y) / n) < 1e-15 && r.p == kf_mcnemar(r.only_a, r.only_b));
  double d = (x - y) / (n + 2);
  double half = 1.959963984540054 * sqrt(((x + y + 1) / (n + 2) - d * d) / (n + 2));
  assert_true(fabs(r.low - (d - half)) < 1e-12 && fabs(r.high - (d + half)) < 1e-12);
  /* Rows that both sides of the file judge are the same as those of the model it came from. */
  assert_ok(ctx, kf_compare(ctx, b, from_file, &r));
  assert_true(r.only_a == 0 && r.only_b == 0 && r.p == 1 && r.low < 0 && r.high > 0);
  free(all);
}

TEST(answers_by_truth) {
  kf_truth *t;
  kf_verdicts *v = NULL;
  assert_ok(ctx,
            kf_truth_load(ctx, write_text("t.txt", "cat\ndog,a\\b\n\nc\td\ne\nf\n"), NULL, &t));
  const char *path = write_text("a.tsv", "row\tclass1\tcosine1\n5\tunheard of\t1\n0\tcat\t1\n"
                                         "1\ta\\\\b\t1\n2\tcat\t1\n3\tc\t0\n");
  assert_ok(ctx, kf_verdicts_read(ctx, path, NULL, t, NULL, &v));
  const kf_eval_result *r = kf_verdicts_counts(v);
  assert_true(r->rows == 6 && r->n == 4 && r->top1 == 3 && r->n_excluded == 1 && r->n_bad == 1);
  kf_verdicts_free(v);
  static const struct {
    const char *text, *cause;
  } bad[] = {
      {"row\tclass2\tcosine\n", "this is not a table of answers"},
      {"row\tclass1\tcosine1\nx\tcat\t1\n", "line 2 does not begin with a row number"},
      {"row\tclass1\tcosine1\n6\tcat\t1\n", "line 2 answers row 6, but there are 6 rows"},
      {"row\tclass1\tcosine1\n99999999999999999999999\tcat\t1\n", "line 2 answers row"},
      {"row\tclass1\tcosine1\n1\tcat\t1\n1\tcat\t1\n", "line 3 answers row 1 again"},
      {"row\tid\tclass1\tcosine1\n1\tx.jpg\n", "line 2 has no class"},
      {"row\tclass1\tcosine1\n", "none of the 6 rows can be scored: 6 are bad"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    v = NULL;
    assert_error(ctx, KF_ERR_DATA, bad[i].cause,
                 kf_verdicts_read(ctx, write_text("a.tsv", bad[i].text), NULL, t, NULL, &v));
    assert_null(v);
  }
  kf_truth_free(t);
  assert_ok(ctx, kf_truth_load(ctx, write_text("t.txt", "1\n2\n"), NULL, &t));
  assert_error(ctx, KF_ERR_DATA, "line 2 has a class name",
               kf_verdicts_read(ctx, write_text("a.tsv", "row\tclass1\tcosine1\n0\tcat\t1\n"), NULL,
                                t, NULL, &v));
  kf_truth_free(t);
}

/* --- hierarchies ----------------------------------------------------------------------------- */

static const char *joined(const kf_class_set *set) {
  static char text[256];
  text[0] = '\0';
  for (uint32_t i = 0; i < kf_class_set_size(set); i++)
    sprintf(text + strlen(text), i > 0 ? " %s" : "%s", kf_class_set_name(set, i));
  return text;
}

static kf_class_set *set_of(const char *words) {
  char text[256];
  snprintf(text, sizeof text, "%s\n", words);
  for (char *c = text; *c != '\0'; c++)
    if (*c == ' ') *c = '\n';
  kf_class_set *set;
  assert_ok(ctx, kf_class_set_load(ctx, write_text("set.txt", text), &set));
  return set;
}

static void assert_kin(const kf_hierarchy *h, const char *words, kf_kin kin, const char *wanted) {
  AUTO(kf_class_set) *set = set_of(words), *found = NULL;
  assert_ok(ctx, kf_class_set_new_kin(ctx, h, set, kin, &found));
  assert_string_equal(joined(found), wanted);
}

/* A diamond: pug has two parents. */
static const char zoo[] = "animal dog\nanimal pet\ndog pug\npet\tpug\ndog husky\nanimal fish\n"
                          "fish eel\npug minipug\n";

TEST(kin) {
  AUTO(kf_hierarchy) *h = NULL;
  const char *names_file = write_text("names.txt", "dog\ta dog\nstone\ta stone\neel\t\n");
  assert_ok(ctx, kf_hierarchy_load(ctx, write_text("zoo.txt", zoo), names_file, &h));
  assert_int_equal(kf_hierarchy_classes(h), 9);
  assert_int_equal(kf_hierarchy_edges(h), 8);
  assert_string_equal(kf_hierarchy_name(h, "dog"), "a dog");
  assert_string_equal(kf_hierarchy_name(h, "pug"), "");
  assert_null(kf_hierarchy_name(h, "cow"));
  assert_kin(h, "pug", KF_KIN_ANCESTORS, "animal dog pet");
  assert_kin(h, "pug dog", KF_KIN_ANCESTORS, "animal dog pet");
  assert_kin(h, "pet", KF_KIN_DESCENDANTS, "pug minipug");
  assert_kin(h, "stone", KF_KIN_DESCENDANTS, "");
  assert_kin(h, "minipug animal dog eel", KF_KIN_LEAVES, "minipug eel"); /* pug is not needed */
  kf_class_set *first = set_of("pug stone"), *groups[KF_GROUPS];
  kf_class_set *second = set_of("minipug eel fish pug husky dog animal");
  assert_ok(ctx, kf_class_groups_new(ctx, h, first, second, groups));
  static const char *const wanted[KF_GROUPS] = {"stone",   "pug",       "dog animal",
                                                "minipug", "eel husky", "fish"};
  for (unsigned g = 0; g < KF_GROUPS; g++) {
    assert_string_equal(joined(groups[g]), wanted[g]);
    kf_class_set_free(groups[g]);
  }
  kf_class_set_free(second);
  second = set_of("eel cow");
  assert_failed(kf_class_groups_new(ctx, h, first, second, groups), KF_ERR_DATA, "set.txt",
                "'cow' (line 2) is not in");
  kf_class_set_free(first);
  kf_class_set_free(second);
}

TEST(bad_hierarchies) {
  static const struct {
    const char *text, *cause;
  } bad[] = {
      {"a b\nb c\nc a\n", "is an ancestor of itself"},
      {"x a\na b\nb c\nc b\nc d\n", "is an ancestor of itself"},
      {"a b\na\n", "line 2 is not 'PARENT CHILD'"},
      {"a b c\n", "line 1 is not 'PARENT CHILD'"},
      {"a b\n\n", "line 2 is not 'PARENT CHILD'"},
      {"a b\nc c\n", "line 2 makes 'c' a parent of itself"},
      {"", "is empty"},
      {"a \xff\n", "line 1 is not valid UTF-8"},
  };
  kf_hierarchy *h = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_failed(kf_hierarchy_load(ctx, write_text("h.txt", bad[i].text), NULL, &h), KF_ERR_DATA,
                  "h.txt", bad[i].cause);
  /* d is below the cycle, not on it. */
  assert_failed(kf_hierarchy_load(ctx, write_text("h.txt", "d e\nc d\nb c\nc b\n"), NULL, &h),
                KF_ERR_DATA, "h.txt", "' is an ancestor");
  assert_null(strstr(kf_errmsg(ctx), "'d'"));
  assert_failed(
      kf_hierarchy_load(ctx, write_text("h.txt", "a b\n"), write_text("n.txt", "a\n"), &h),
      KF_ERR_DATA, "n.txt", "line 1 is not a class, a tab");
  assert_failed(kf_hierarchy_load(ctx, at("h.txt"), write_text("n.txt", "a\tx\na\ty\n"), &h),
                KF_ERR_DATA, "n.txt", "line 2 names 'a' a second time");
  assert_null(h);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
