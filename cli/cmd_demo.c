/* cmd_demo.c - koofu demo: what the method does, on a small synthetic world in memory. */
#include "cli.h"
#include "commands.h"

/* The world, unless options say otherwise. */
enum { CLASSES = 200, DIM = 512, PER_CLASS = 16, TEST_PER_CLASS = 20 };

static const char *const lambdas[] = {"0.03x", "0.1x", "0.3x", "1x", "3x"};
static const uint32_t dims[] = {256, 128, 64, 32};

/* One line of the table. */
typedef struct demo_line {
  const char *lambda; /* NULL: the raw space */
  uint32_t dim;
  uint64_t top1, top5;
} demo_line;

typedef struct demo {
  cli_run *cli;
  kf_synth_options world;
  uint64_t test_per_class;
  kf_data *test;
  kf_stats *stats;
  uint64_t n; /* test rows scored */
  demo_line raw;
  demo_line full[COUNT_OF(lambdas)];
  demo_line small[COUNT_OF(dims)];
  size_t n_small;        /* how many of dims are below D */
  const demo_line *best; /* of full */
} demo;

/* --- the work --------------------------------------------------------------------------------- */

static int prepare(demo *d) {
  kf_ctx *ctx = d->cli->ctx;
  kf_data *train;
  kf_status status = kf_synth_open(ctx, &d->world, &train);
  if (status != KF_OK) return fail(d->cli, status);
  status = kf_stats_new_from_data(ctx, train, NULL, &d->stats);
  kf_data_free(train);
  kf_synth_options test = d->world;
  test.split = 1;
  test.per_class = d->test_per_class;
  if (status == KF_OK) status = kf_synth_open(ctx, &test, &d->test);
  return status == KF_OK ? EXIT_OK : fail(d->cli, status);
}

/* Fits and evaluates one line; the raw space is evaluated along with the first. */
static int measure(demo *d, const char *lambda, uint32_t dim, demo_line *out) {
  kf_ctx *ctx = d->cli->ctx;
  kf_fit_options options = {.dim = dim};
  kf_eval_options eval_options = {.skip_raw = d->n > 0};
  kf_eval_result result;
  kf_model *model = NULL;
  kf_status status = kf_lambda_parse(ctx, lambda, &options.lambda);
  if (status == KF_OK) status = kf_fit(ctx, d->stats, &options, &model);
  if (status == KF_OK) status = kf_eval(ctx, model, d->test, &eval_options, &result);
  kf_model_free(model);
  if (status != KF_OK) return fail(d->cli, status);
  if (d->n == 0) d->raw = (demo_line){NULL, d->world.dim, result.raw_top1, result.raw_top5};
  d->n = result.n;
  *out = (demo_line){lambda, dim, result.top1, result.top5};
  return EXIT_OK;
}

static int measure_all(demo *d) {
  for (size_t i = 0; i < COUNT_OF(lambdas); i++) {
    int result = measure(d, lambdas[i], d->world.dim, &d->full[i]);
    if (result != EXIT_OK) return result;
    if (!d->best || d->full[i].top1 > d->best->top1) d->best = &d->full[i];
  }
  for (size_t i = 0; i < COUNT_OF(dims); i++) {
    if (dims[i] >= d->world.dim) continue;
    int result = measure(d, d->best->lambda, dims[i], &d->small[d->n_small]);
    if (result != EXIT_OK) return result;
    d->n_small++;
  }
  return EXIT_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

static void print_line(const demo *d, const demo_line *line) {
  char ratio[24];
  snprintf(ratio, sizeof ratio, "%.3gx", (double)d->world.dim / line->dim);
  printf("%-8s %7s %6u %8s %8s  %9s %9s\n", line->lambda ? "Koo-Fu" : "raw",
         line->lambda ? line->lambda : "-", line->dim, show_count(4 * (uint64_t)line->dim).text,
         ratio, show_percent(line->top1, d->n).text, show_percent(line->top5, d->n).text);
}

static void print_table(const demo *d) {
  printf("A synthetic world: %s, %u dimensions, %s and\n",
         show_counted(d->world.classes, "class", "classes").text, d->world.dim,
         show_counted(d->world.per_class, "training row", "training rows").text);
  printf("%s per class, seed %llu. There is no real image in it; its shape\n",
         show_counted(d->test_per_class, "test row", "test rows").text,
         (unsigned long long)d->world.seed);
  printf("follows real CLIP embeddings. The same seed gives the same figures on every\n"
         "machine.\n\n"
         "How often is the nearest class mean the right one? Of %s:\n\n",
         show_counted(d->n, "test row", "test rows").text);
  printf("%-8s %7s %6s %8s %8s  %9s %9s\n", "space", "lambda", "dims", "bytes", "smaller", "top-1",
         "top-5");
  print_line(d, &d->raw);
  for (size_t i = 0; i < COUNT_OF(lambdas); i++) print_line(d, &d->full[i]);
  for (size_t i = 0; i < d->n_small; i++) print_line(d, &d->small[i]);
}

/* --- the words: all of them follow from the figures ------------------------------------------- */

static void print_gain(const demo *d) {
  uint64_t raw = d->raw.top1, best = d->best->top1;
  printf("\nThe map. ");
  if (best > raw) {
    double raw_low, raw_high, low, high;
    kf_interval95(raw, d->n, &raw_low, &raw_high);
    kf_interval95(best, d->n, &low, &high);
    printf("With lambda %s, top-1 rises from %s to %s:\n%.0f %% fewer errors%s.\n", d->best->lambda,
           show_percent(raw, d->n).text, show_percent(best, d->n).text,
           100 * (double)(best - raw) / (double)(d->n - raw),
           low > raw_high ? ", and the 95 % intervals of the two do not overlap"
                          : " (though the 95 % intervals of the two overlap)");
  } else
    printf("None of these lambdas beats the raw space here.\n");
}

static void print_lambda(const demo *d) {
  const demo_line *worst = &d->full[0];
  for (size_t i = 1; i < COUNT_OF(lambdas); i++)
    if (d->full[i].top1 < worst->top1) worst = &d->full[i];
  printf("\nLambda. It says how little the scatter seen in training is trusted; 0.3x is 0.3\n"
         "times its mean eigenvalue. Between these lambdas top-1 goes from %s to\n%s. "
         "The best was picked on the test rows, which flatters it: pick\n"
         "yours on rows that you keep for that.\n",
         show_percent(worst->top1, d->n).text, show_percent(d->best->top1, d->n).text);
}

/* The smallest space that has at least so many hits; NULL: none of them. */
static const demo_line *smallest(const demo *d, uint64_t hits) {
  const demo_line *found = NULL;
  for (size_t i = 0; i < d->n_small; i++)
    if (d->small[i].top1 >= hits) found = &d->small[i];
  return found;
}

static void print_size(const demo *d) {
  if (d->n_small == 0) return;
  const demo_line *found = smallest(d, d->raw.top1);
  printf("\nSize. The directions come most telling first, so that a row can be cut. ");
  if (found)
    printf("%u\nof %u dimensions (%s of f32 instead of %s) are still right for\n%s, "
           "no less often than the whole raw row.\n",
           found->dim, d->world.dim, show_counted(4 * (uint64_t)found->dim, "byte", "bytes").text,
           show_count(4 * (uint64_t)d->world.dim).text, show_percent(found->top1, d->n).text);
  else
    printf("Here\nnone of the cut rows is as good as the whole raw row.\n");
}

static void print_next(const demo *d) {
  /* The smallest space that costs at most a point. */
  uint64_t point = d->n / 100;
  const demo_line *use = smallest(d, d->best->top1 > point ? d->best->top1 - point : 0);
  if (!use) use = d->best;
  printf("\nNext, the same in files (after make, 'export PATH=$PWD/build:$PATH' finds koofu):\n");
  for (int split = 0; split < 2; split++)
    printf("  koofu synth --classes %u --dim %u --per-class %llu --seed %llu%s -o %s.safetensors\n",
           d->world.classes, d->world.dim,
           (unsigned long long)(split ? d->test_per_class : d->world.per_class),
           (unsigned long long)d->world.seed, split ? " --split 1" : "", split ? "test" : "train");
  printf("  koofu fit train.safetensors --lambda %s --dim %u -o model.safetensors\n"
         "  koofu eval model.safetensors test.safetensors\n"
         "  koofu classify model.safetensors test.safetensors --top 5 | head\n"
         "With your own embeddings, x.npy [N, D], and labels, one a line:\n"
         "  koofu fit x.npy --labels y.txt -o model.safetensors\n",
         use->lambda, use->dim);
}

static int run(cli_run *cli) {
  const cli_args *a = &cli->args;
  demo d = {.cli = cli, .world = world_of(a), .test_per_class = (uint64_t)a->test_per_class.value};
  if (!a->world_classes.given) d.world.classes = CLASSES;
  if (!a->world_dim.given) d.world.dim = DIM;
  if (!a->per_class.given) d.world.per_class = PER_CLASS;
  if (!a->test_per_class.given) d.test_per_class = TEST_PER_CLASS;
  int result = prepare(&d);
  if (result == EXIT_OK) result = measure_all(&d);
  kf_data_free(d.test);
  kf_stats_free(d.stats);
  if (result != EXIT_OK) return result;
  progress_clear(&cli->progress);
  print_table(&d);
  print_gain(&d);
  print_lambda(&d);
  print_size(&d);
  print_next(&d);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){{"test-per-class", 0, OPTION_NUMBER, offsetof(cli_args, test_per_class), 0,
                          "M", "test rows of each class", 1, INT64_MAX, NULL},
                         {0}}};

const cli_command demo_command = {
    .name = "demo",
    .operands = "",
    .summary = "show what it does, on a small synthetic world",
    .details =
        "Makes a synthetic world in memory (see 'koofu synth'), fits models with a few lambdas and "
        "dimensions, prints how often each is right beside the raw space, and says what the "
        "figures mean. Nothing is read or written.",
    .groups = (const cli_group *const[]){&own_options, &world_options, NULL},
    .examples = (const cli_example[]){{"As many classes as ImageNet", "koofu demo --classes 1000"},
                                      {NULL, NULL}},
    .run = run,
};
