/* cmd_demo.c - koofu demo: shows what the method does, on a small synthetic world in memory. */
#include "commands.h"

enum { CLASSES = 200, DIM = 512, PER_CLASS = 16, TEST_PER_CLASS = 20 };

static const double lambdas[] = {0.03, 0.1, 0.3, 1, 3}; /* times the mean eigenvalue */
static const uint32_t dims[] = {256, 128, 64, 32};
enum { N_LAMBDAS = COUNT_OF(lambdas), N_DIMS = COUNT_OF(dims) };

typedef struct demo {
  cli_run *cli;
  kf_synth_options world;
  uint64_t test_per_class;
  kf_data *train, *test;
  kf_stats *stats;
  kf_lambda_choice *choice; /* by leave-one-out */
  kf_sweep *sweep;
  size_t n_dims;                        /* D itself and those of dims below it */
  const kf_sweep_cell *raw;             /* one cell */
  const kf_sweep_cell *full[N_LAMBDAS]; /* all dimensions */
  const kf_sweep_cell *chosen;          /* [n_dims] at the chosen lambda, falling dimensions */
} demo;

static int prepare(demo *d) {
  cli_run *cli = d->cli;
  kf_synth_options test = d->world;
  test.split = 1;
  test.per_class = d->test_per_class;
  TRY(own_data(cli, kf_synth_open(cli->ctx, &d->world, &d->train), &d->train));
  TRY(own_stats(cli, kf_stats_new_from_data(cli->ctx, d->train, NULL, &d->stats), &d->stats));
  TRY(own_data(cli, kf_synth_open(cli->ctx, &test, &d->test), &d->test));
  return own_lambda_choice(
      cli, kf_lambda_choice_new(cli->ctx, d->stats, d->train, NULL, &d->choice), &d->choice);
}

/* All lines in one sweep, whose cells are ordered by lambda, then by dimension. */
static int measure(demo *d) {
  kf_lambda list[N_LAMBDAS + 1];
  uint32_t columns[N_DIMS + 1] = {d->world.dim};
  for (size_t i = 0; i < N_LAMBDAS; i++) list[i] = (kf_lambda){lambdas[i], KF_LAMBDA_RELATIVE};
  list[N_LAMBDAS] = (kf_lambda){d->choice->lambda, KF_LAMBDA_ABSOLUTE};
  d->n_dims = 1;
  for (size_t i = 0; i < N_DIMS; i++)
    if (dims[i] < d->world.dim) columns[d->n_dims++] = dims[i];
  kf_sweep_options options = {
      .lambdas = list, .n_lambdas = N_LAMBDAS + 1, .dims = columns, .n_dims = d->n_dims};
  TRY(own_sweep(d->cli, kf_sweep_new(d->cli->ctx, d->stats, NULL, d->test, &options, &d->sweep),
                &d->sweep));
  d->raw = d->sweep->cells;
  for (size_t i = 0; i < N_LAMBDAS; i++) d->full[i] = d->sweep->cells + 1 + i * d->n_dims;
  d->chosen = d->sweep->cells + 1 + N_LAMBDAS * d->n_dims;
  return EXIT_OK;
}

static void print_line(const demo *d, const kf_sweep_cell *c) {
  char ratio[24];
  snprintf(ratio, sizeof ratio, "%.3gx", (double)d->world.dim / c->dim);
  printf("%-8s %7s %6u %8s %8s  %9s %9s%s\n", c->raw ? "raw" : "Koo-Fu",
         c->raw ? "-" : show_relative(c->relative, 1).text, c->dim,
         show_count(4 * (uint64_t)c->dim).text, ratio, show_percent(c->top1, c->n).text,
         show_percent(c->top5, c->n).text, c == d->chosen ? "  chosen" : "");
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
         show_counted(d->raw->n, "test row", "test rows").text);
  printf("%-8s %7s %6s %8s %8s  %9s %9s\n", "space", "lambda", "dims", "bytes", "smaller", "top-1",
         "top-5");
  print_line(d, d->raw);
  int told = 0; /* the line of the chosen lambda is printed */
  for (size_t i = 0; i < N_LAMBDAS; i++) {
    if (!told && d->chosen->lambda <= d->full[i]->lambda) {
      print_line(d, d->chosen);
      told = 1;
    }
    if (d->chosen->lambda != d->full[i]->lambda) print_line(d, d->full[i]);
  }
  if (!told) print_line(d, d->chosen);
  for (size_t i = 1; i < d->n_dims; i++) print_line(d, &d->chosen[i]);
}

static void print_gain(const demo *d) {
  uint64_t n = d->raw->n, raw = d->raw->top1, own = d->chosen->top1;
  printf("\nThe map. ");
  if (own > raw) {
    double raw_low, raw_high, low, high;
    kf_interval95(raw, n, &raw_low, &raw_high);
    kf_interval95(own, n, &low, &high);
    printf("Top-1 rises from %s to %s: %.0f %% fewer errors%s.\n", show_percent(raw, n).text,
           show_percent(own, n).text, 100 * (double)(own - raw) / (double)(n - raw),
           low > raw_high ? ",\nand the 95 % intervals of the two do not overlap"
                          : "\n(though the 95 % intervals of the two overlap)");
  } else
    printf("It does not beat the raw space here.\n");
}

static void print_lambda(const demo *d) {
  const kf_lambda_choice *c = d->choice;
  const kf_sweep_cell *best = d->chosen;
  for (size_t i = 0; i < N_LAMBDAS; i++)
    if (d->full[i]->top1 > best->top1) best = d->full[i];
  printf("\nLambda. It says how little the scatter seen in training is trusted; 0.3x is 0.3\n"
         "times its mean eigenvalue. %s was chosen from the training rows alone: each was\n"
         "left out in turn, exactly, for %zu lambdas. ",
         show_relative(c->lambda, c->mean_eigenvalue).text, c->n_points);
  if (best == d->chosen)
    printf("On the test rows none of these is better.\n");
  else
    printf("On the test rows, the best of\nthese is better by %.2f points.\n",
           100 * (double)(best->top1 - d->chosen->top1) / (double)best->n);
}

/* The smallest space with at least this many hits; NULL: none. */
static const kf_sweep_cell *smallest(const demo *d, uint64_t hits) {
  const kf_sweep_cell *found = NULL;
  for (size_t i = 1; i < d->n_dims; i++)
    if (d->chosen[i].top1 >= hits) found = &d->chosen[i];
  return found;
}

static void print_size(const demo *d) {
  if (d->n_dims == 1) return;
  const kf_sweep_cell *found = smallest(d, d->raw->top1);
  printf("\nSize. The most telling directions come first, so a row can be cut short. ");
  if (found)
    printf("%u\nof %u dimensions (%s of f32 instead of %s) are still right for\n%s, no less often "
           "than the whole raw row.\n",
           found->dim, d->world.dim, show_counted(4 * (uint64_t)found->dim, "byte", "bytes").text,
           show_count(4 * (uint64_t)d->world.dim).text, show_percent(found->top1, found->n).text);
  else
    printf("Here\nnone of the cut rows is as good as the whole raw row.\n");
}

static void print_next(const demo *d) {
  printf("\nNext, the same in files (after make, 'export PATH=$PWD/build:$PATH' finds koofu):\n");
  for (int split = 0; split < 2; split++)
    printf("  koofu synth --classes %u --dim %u --per-class %llu --seed %llu%s -o %s.safetensors\n",
           d->world.classes, d->world.dim,
           (unsigned long long)(split ? d->test_per_class : d->world.per_class),
           (unsigned long long)d->world.seed, split ? " --split 1" : "", split ? "test" : "train");
  printf("  koofu fit train.safetensors --dim auto -o model.safetensors\n"
         "  koofu eval model.safetensors test.safetensors\n"
         "  koofu report train.safetensors --test test.safetensors -o report.html\n"
         "With your own embeddings, x.npy [N, D], and labels, one per line:\n"
         "  koofu fit x.npy --labels y.txt -o model.safetensors\n"
         "With your own pictures, one folder per class, and a CLIP model (koofu embed -H):\n"
         "  koofu quickstart photos --encoder clip\n");
}

static int run_demo(cli_run *cli) {
  const cli_args *a = &cli->args;
  demo d = {
      .cli = cli, .world = world_of(a), .test_per_class = (uint64_t)a->world.test_per_class.value};
  if (!a->world.classes.given) d.world.classes = CLASSES;
  if (!a->world.dim.given) d.world.dim = DIM;
  if (!a->world.per_class.given) d.world.per_class = PER_CLASS;
  if (!a->world.test_per_class.given) d.test_per_class = TEST_PER_CLASS;
  TRY(prepare(&d));
  TRY(measure(&d));
  progress_clear(&cli->progress);
  print_table(&d);
  print_gain(&d);
  print_lambda(&d);
  print_size(&d);
  print_next(&d);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options", OPTIONS({NUMBER("test-per-class", world.test_per_class, "M", 1, INT64_MAX),
                        .help = "test rows of each class"})};

const cli_command demo_command = {
    .name = "demo",
    .summary = "show what koofu does, on a small synthetic world",
    .details = "Makes a synthetic world in memory (see 'koofu synth'), chooses lambda by "
               "leave-one-out, fits models with this and a few other lambdas and dimensions, "
               "prints how often each is right compared with the raw space, and says what the "
               "figures mean. Nothing is read or written.",
    .groups = GROUPS(&own_options, &world_options),
    .examples = EXAMPLES({"As many classes as ImageNet", "koofu demo --classes 1000"}),
    .run = run_demo,
};
