/* pages.h - invented but plausible content for reports: curves that rise and fall, confused
 * classes. */
#ifndef KF_TEST_PAGES_H
#define KF_TEST_PAGES_H

#include "report/report.h"
#include "test.h"

#include <math.h>

enum { PAGE_LAMBDAS = 15, PAGE_KS = 30, PAGE_BINS = 10, PAGE_ALPHAS = 6 };

typedef struct page {
  kf_page content;
  kf_model *model;
  kf_eval_result eval;
  kf_lambda_choice lambda;
  kf_lambda_point lambda_points[PAGE_LAMBDAS];
  kf_dim_choice dim;
  kf_k_choice k;
  kf_k_point k_points[PAGE_KS];
  kf_sweep sweep;
  kf_analysis analysis;
  kf_margin_bin bins[PAGE_BINS];
  kf_shots shots;
  kf_shots_size sizes[4];
  kf_shots_point shots_points[4 * 2 * KF_SHOTS_CLASSIFIERS];
  kf_eval_result text, fused;
  kf_fuse_choice fuse;
  kf_fuse_point alphas[2 * PAGE_ALPHAS];
} page;

/* A model of classes with two to five rows each; names: [classes] or NULL. */
static inline kf_model *page_model(kf_ctx *context, uint32_t classes, uint32_t dim, uint32_t kept,
                                   const char *const *names) {
  uint64_t seed = 5, n = 0, most = 5 * (uint64_t)classes;
  AUTOFREE float *rows = malloc(most * dim * sizeof *rows), *centre = malloc(dim * sizeof *centre);
  AUTOFREE int32_t *labels = malloc(most * sizeof *labels);
  assert_true(rows != NULL && centre != NULL && labels != NULL);
  for (uint32_t k = 0; k < classes; k++) {
    for (uint32_t j = 0; j < dim; j++) centre[j] = (float)(2 * test_normal(&seed) / (1 + 0.1 * j));
    for (uint32_t i = 0; i < 2 + k % 4; i++, n++) {
      for (uint32_t j = 0; j < dim; j++)
        rows[n * dim + j] = centre[j] + (float)(test_normal(&seed) / (1 + 0.05 * j));
      labels[n] = (int32_t)k;
    }
  }
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  kf_model *model;
  assert_ok(context, kf_data_open_memory(context, rows, n, dim, labels, names, classes, &data));
  assert_ok(context, kf_stats_new_from_data(context, data, NULL, &stats));
  assert_ok(context, kf_fit_stats(context, stats, &(kf_fit_options){.dim = kept}, &model));
  return model;
}

static inline void page_lambda(page *p, double mean) {
  p->lambda = (kf_lambda_choice){.mean_eigenvalue = mean,
                                 .standard_error = 0.008,
                                 .metric = KF_METRIC_COSINE,
                                 .rows = 4000,
                                 .n = 4000,
                                 .n_points = PAGE_LAMBDAS,
                                 .points = p->lambda_points};
  for (size_t i = 0; i < PAGE_LAMBDAS; i++) {
    double off = ((double)i - 8) / 6;
    p->lambda_points[i] = (kf_lambda_point){.lambda = mean * pow(10, ((double)i - 9) / 3),
                                            .top1 = (uint64_t)(2200 - 500 * off * off),
                                            .top5 = (uint64_t)(3300 - 300 * off * off)};
  }
  p->lambda.best = p->lambda.chosen = 8;
  p->lambda.lambda = p->lambda_points[8].lambda;
}

static inline void page_dims(page *p, uint32_t dim) {
  p->dim = (kf_dim_choice){.dim = dim / 4 + 1,
                           .best = dim / 2 + 1,
                           .folds = 10,
                           .n = 4000,
                           .margin = 0.005,
                           .same = dim};
  p->dim.points = calloc(dim, sizeof *p->dim.points);
  assert_non_null(p->dim.points);
  for (uint32_t d = 1; d <= dim; d++)
    p->dim.points[p->dim.n_points++] =
        (kf_dim_point){.dim = d, .top1 = (uint64_t)(2300 * (1 - exp(-8.0 * d / dim)))};
  for (uint32_t d = 0; d < dim; d++)
    p->dim.points[d].lost = p->dim.points[dim - 1].top1 - p->dim.points[d].top1;
}

static inline void page_ks(page *p) {
  p->k = (kf_k_choice){
      .k = 5, .best = 7, .n = 4000, .folds = 5, .n_points = PAGE_KS, .points = p->k_points};
  for (uint32_t k = 1; k <= PAGE_KS; k++)
    p->k_points[k - 1] = (kf_k_point){
        .k = k, .top1 = (uint64_t)(2200 - 2 * (k - 7.0) * (k - 7.0)), .top5 = k > 1 ? 3000 : 2128};
}

static inline void page_sweep(page *p, double mean, uint32_t dim) {
  static const uint32_t ks[] = {0, 1, 5, 15};
  p->sweep = (kf_sweep){.mean_eigenvalue = mean, .counts = {.rows = 3000, .n = 3000}};
  p->sweep.cells = calloc(96, sizeof *p->sweep.cells);
  assert_non_null(p->sweep.cells);
  for (size_t i = 0; i < 4; i++) {
    kf_sweep_cell cell = {.raw = 1, .dim = dim, .k = ks[i], .metric = KF_METRIC_COSINE, .n = 3000};
    cell.top1 = 1400 - 60 * i;
    cell.top5 = 2100;
    p->sweep.cells[p->sweep.n_cells++] = cell;
    cell.raw = 0;
    cell.lambda = 0.3 * mean;
    cell.relative = 0.3;
    for (uint32_t d = dim; d >= 1 && d > dim / 64; d /= 2) {
      cell.dim = d;
      cell.top1 = (uint64_t)(1650 * (1 - exp(-8.0 * d / dim))) - 50 * i;
      p->sweep.cells[p->sweep.n_cells++] = cell;
    }
  }
}

/* Most rows of class k are right, some go to its neighbour, a few to a distant class. */
static inline void page_analysis(page *p, uint32_t classes) {
  kf_analysis *a = &p->analysis;
  *a = (kf_analysis){.totals = p->eval, .n_classes = classes, .n_bins = PAGE_BINS, .bins = p->bins};
  a->classes = calloc(classes, sizeof *a->classes);
  a->confusions = calloc(2 * (size_t)classes, sizeof *a->confusions);
  assert_true(a->classes != NULL && a->confusions != NULL);
  for (uint32_t k = 0; k < classes; k++)
    a->classes[k] = (kf_class_result){20, 8 + k * 7 % 12, 17, 20};
  for (uint32_t k = 0; k < classes && classes > 1; k++)
    a->confusions[a->n_confusions++] = (kf_confusion){(int32_t)k, (int32_t)(k ^ 1u), 8};
  if (classes % 2 && a->n_confusions > 0) a->n_confusions--; /* its partner does not exist */
  for (int i = 0; i < PAGE_BINS; i++)
    p->bins[i] =
        (kf_margin_bin){0.002 * i * i, 0.002 * (i + 1) * (i + 1), 300, (uint64_t)(100 + 20 * i)};
}

/* 1, 2, 4 and 8 shots, two draws each; the last has classes with fewer rows. */
static inline void page_shots(page *p, uint32_t classes) {
  p->shots = (kf_shots){.seeds = 2,
                        .classes = classes,
                        .most = 8,
                        .n_sizes = 4,
                        .sizes = p->sizes,
                        .n_classifiers = KF_SHOTS_CLASSIFIERS,
                        .points = p->shots_points};
  for (uint32_t i = 0; i < 4; i++) {
    p->sizes[i] = (kf_shots_size){.shots = 1u << i, .fewer = i == 3, .rows = classes << i};
    for (uint32_t at = 0; at < 2 * KF_SHOTS_CLASSIFIERS; at++) {
      uint32_t c = at % KF_SHOTS_CLASSIFIERS, seed = at / KF_SHOTS_CLASSIFIERS;
      uint64_t top1 = c == KF_SHOTS_TEXT ? 1800 : 900 + 150 * i + 300 * c + 40 * seed;
      p->shots_points[p->shots.n_points++] = (kf_shots_point){.shots = 1u << i,
                                                              .seed = seed,
                                                              .classifier = (kf_shots_classifier)c,
                                                              .n = 3000,
                                                              .top1 = top1,
                                                              .top5 = top1 + 500};
    }
  }
}

/* Two lambdas, six alphas; the best is the last but two of the first lambda. */
static inline void page_fuse(page *p, double mean) {
  static const double alphas[PAGE_ALPHAS] = {0, 0.01, 0.1, 0.3, 1, 10};
  static const uint64_t top1[PAGE_ALPHAS] = {2400, 2450, 2550, 2650, 2500, 2100};
  p->fuse = (kf_fuse_choice){.lambda = 0.3 * mean,
                             .alpha = 0.3,
                             .mean_eigenvalue = mean,
                             .standard_error = 0.0075,
                             .rows = 4000,
                             .n = 4000,
                             .text_top1 = 2400,
                             .chosen = 3,
                             .n_points = 2 * PAGE_ALPHAS,
                             .points = p->alphas};
  for (size_t i = 0; i < 2 * PAGE_ALPHAS; i++)
    p->alphas[i] = (kf_fuse_point){.lambda = (i < PAGE_ALPHAS ? 0.3 : 3) * mean,
                                   .alpha = alphas[i % PAGE_ALPHAS],
                                   .top1 = top1[i % PAGE_ALPHAS] - i / PAGE_ALPHAS,
                                   .top5 = 3000};
}

static inline void page_add_cell(page *p, double relative, uint32_t dim, int raw, kf_centre centre,
                                 uint64_t top1) {
  p->sweep.cells[p->sweep.n_cells++] =
      (kf_sweep_cell){.raw = raw,
                      .lambda = relative * p->sweep.mean_eigenvalue,
                      .relative = relative,
                      .dim = dim,
                      .metric = KF_METRIC_COSINE,
                      .text = centre,
                      .fused = centre == 0,
                      .alpha = centre == 0 ? 0.3 : 0,
                      .n = 3000,
                      .top1 = top1,
                      .top5 = top1 + 500};
}

/* Text: the model knows it, the sweep has it over lambda and dimensions. */
static inline void page_add_text(page *p, kf_ctx *context) {
  uint32_t classes = kf_model_classes(p->model), dim = kf_model_dim_in(p->model);
  uint64_t seed = 9;
  float *rows = malloc((size_t)classes * dim * sizeof *rows);
  int32_t *labels = malloc(classes * sizeof *labels);
  const char **names = malloc(classes * sizeof *names);
  assert_true(rows != NULL && labels != NULL && names != NULL);
  for (uint32_t k = 0; k < classes; k++) {
    labels[k] = (int32_t)k;
    names[k] = kf_model_class_name(p->model, k);
    for (uint32_t j = 0; j < dim; j++) rows[(size_t)k * dim + j] = (float)test_normal(&seed);
  }
  kf_data *data;
  kf_text *text;
  kf_model *fused;
  assert_ok(context, kf_data_open_memory(context, rows, classes, dim, labels,
                                         names[0] != NULL ? names : NULL, classes, &data));
  assert_ok(context, kf_text_new(context, data, NULL, &text));
  assert_ok(context, kf_model_new_fused(context, p->model, text, 0.3, &fused));
  kf_model_free(p->model);
  p->content.model = p->model = fused;
  kf_text_free(text);
  kf_data_free(data);
  free(rows);
  free(labels);
  free(names);
  p->text =
      (kf_eval_result){.rows = 3010, .n = 3000, .n_unlabelled = 10, .top1 = 1800, .top5 = 2500};
  p->fused =
      (kf_eval_result){.rows = 3010, .n = 3000, .n_unlabelled = 10, .top1 = 1980, .top5 = 2650};
  p->content.text = &p->text;
  p->content.fused = &p->fused;
  page_fuse(p, p->sweep.mean_eigenvalue);
  p->content.fuse = &p->fuse;
  page_add_cell(p, 0, dim, 1, KF_CENTRE_NONE, 1800);
  static const double relative[] = {0.01, 0.1, 0.3, 1, 10};
  for (uint64_t i = 0; i < 5; i++) {
    page_add_cell(p, relative[i], dim, 0, KF_CENTRE_NONE, 100 + 200 * i);
    page_add_cell(p, relative[i], dim, 0, KF_CENTRE_MODALITY, 1000 + 150 * i);
    page_add_cell(p, relative[i], dim, 0, 0, 1940 + 10 * i);
  }
  for (uint32_t d = dim / 2; d >= 1 && d > dim / 16; d /= 2) {
    page_add_cell(p, 0.3, d, 0, KF_CENTRE_MODALITY, 200 + 1000 * d / dim);
    page_add_cell(p, 0.3, d, 0, 0, 1700 + 200 * d / dim);
  }
}

static inline void page_make(page *p, kf_ctx *context, uint32_t classes, uint32_t dim,
                             uint32_t kept, const char *const *names) {
  memset(p, 0, sizeof *p);
  p->model = page_model(context, classes, dim, kept, names);
  double mean = kf_model_mean_eigenvalue(p->model);
  p->eval = (kf_eval_result){.rows = 3010,
                             .n = 3000,
                             .n_unlabelled = 10,
                             .top1 = 1650,
                             .top5 = 2400,
                             .raw_top1 = 1400,
                             .raw_top5 = 2100};
  page_lambda(p, mean);
  page_dims(p, dim);
  page_ks(p);
  page_sweep(p, mean, dim);
  page_analysis(p, classes);
  page_shots(p, classes);
  p->content = (kf_page){.title = "A page",
                         .train = "train.npy",
                         .test = "test.npy",
                         .train_rows = 4000,
                         .model = p->model,
                         .eval = &p->eval,
                         .lambda = &p->lambda,
                         .dim = &p->dim,
                         .k = &p->k,
                         .sweep = &p->sweep,
                         .analysis = &p->analysis,
                         .shots = &p->shots};
}

static inline void page_free(page *p) {
  kf_model_free(p->model);
  free(p->dim.points);
  free(p->sweep.cells);
  free(p->analysis.classes);
  free(p->analysis.confusions);
}

#endif
