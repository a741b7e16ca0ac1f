/* sweep_shots.c - koofu sweep --shots: accuracy against the number of training rows of each
 * class. */
#include "eval.h"
#include "sweep.h"

typedef struct shots_job {
  cli_run *cli;
  kf_data *train, *test;
  kf_truth *truth;
  kf_text *text;
  kf_shots *shots;
} shots_job;

static const char *const titles[KF_SHOTS_CLASSIFIERS] = {"raw", "Koo-Fu", "zero-shot", "fused"};

static double share(uint64_t hits, uint64_t n) { return n ? (double)hits / (double)n : 0; }

static void print_spread(FILE *file, const kf_spread *s) {
  fprintf(file, "   %6.2f %5.2f %6.2f %6.2f", 100 * s->mean, 100 * s->deviation, 100 * s->low,
          100 * s->high);
}

static void print_line(const kf_shots *s, FILE *file, size_t size, kf_shots_classifier classifier) {
  const kf_shots_size *z = &s->sizes[size];
  if (classifier == KF_SHOTS_RAW)
    fprintf(file, "%5u %9s  ", z->shots, show_count(z->rows).text);
  else
    fprintf(file, "%17s", "");
  fprintf(file, "%-9s", titles[classifier]);
  for (int top5 = 0; top5 < 2; top5++) {
    kf_spread spread;
    kf_shots_spread(s, size, classifier, top5, &spread);
    print_spread(file, &spread);
  }
  fprintf(file, "\n");
}

static void print_text(const void *result, sink *out) {
  const kf_shots *s = result;
  FILE *file = out->file;
  fprintf(file, "per cent of %s: mean, standard deviation, least and most of %s\n",
          show_counted(s->points->n, "test row", "test rows").text,
          show_counted(s->seeds, "draw", "draws").text);
  fprintf(file, "%5s %9s  %-9s   %6s %5s %6s %6s   %6s %5s %6s %6s\n", "shots", "rows", "", "top-1",
          "sd", "least", "most", "top-5", "sd", "least", "most");
  for (size_t i = 0; i < s->n_sizes; i++)
    for (size_t c = 0; c < s->n_classifiers; c++) print_line(s, file, i, (kf_shots_classifier)c);
  fprintf(file, "\n");
  if (s->sizes[0].shots == 1)
    fprintf(file, "one shot leaves no scatter within classes: %s\n",
            s->method == KF_METHOD_PAPER ? "there the map of Koo-Fu is a rotation"
                                         : "there Koo-Fu takes that of all rows");
  fprintf(file, "lambda and alpha are chosen from the drawn rows alone\n");
}

static void print_csv(const void *result, sink *out) {
  const kf_shots *s = result;
  sink_columns(out, "shots seed rows classes_with_fewer classifier lambda alpha n top1 top5 "
                    "top1_share top5_share");
  sink_end_header(out);
  for (size_t i = 0; i < s->n_points; i++) {
    const kf_shots_point *p = &s->points[i];
    const kf_shots_size *size = &s->sizes[i / (s->seeds * s->n_classifiers)];
    fprintf(out->file, "%u,%u,%llu,%u,%s,%.17g,%.17g,%llu,%llu,%llu,%.6f,%.6f\n", p->shots, p->seed,
            (unsigned long long)size->rows, size->fewer, kf_shots_classifier_name(p->classifier),
            p->lambda, p->alpha, (unsigned long long)p->n, (unsigned long long)p->top1,
            (unsigned long long)p->top5, share(p->top1, p->n), share(p->top5, p->n));
  }
}

static void print_json_spread(cli_json *w, const char *key, const kf_shots *s, size_t size,
                              kf_shots_classifier classifier, int top5) {
  kf_spread spread;
  kf_shots_spread(s, size, classifier, top5, &spread);
  jw_open(w, key, '{');
  jw_real(w, "mean", spread.mean);
  jw_real(w, "deviation", spread.deviation);
  jw_real(w, "low", spread.low);
  jw_real(w, "high", spread.high);
  jw_close(w, "}");
}

static void print_json_draw(cli_json *w, const kf_shots_point *p) {
  int mapped = p->classifier == KF_SHOTS_KOOFU || p->classifier == KF_SHOTS_FUSED;
  jw_open(w, NULL, '{');
  jw_count(w, "seed", p->seed);
  if (mapped) jw_real(w, "lambda", p->lambda);
  if (p->classifier == KF_SHOTS_FUSED) jw_real(w, "alpha", p->alpha);
  jw_count(w, "n", p->n);
  jw_real(w, "top1", share(p->top1, p->n));
  jw_real(w, "top5", share(p->top5, p->n));
  jw_close(w, "}");
}

static void print_json_size(cli_json *w, const kf_shots *s, size_t size) {
  jw_open(w, NULL, '{');
  jw_count(w, "shots", s->sizes[size].shots);
  jw_count(w, "rows", s->sizes[size].rows);
  jw_count(w, "classes_with_fewer", s->sizes[size].fewer);
  for (size_t c = 0; c < s->n_classifiers; c++) {
    kf_shots_classifier classifier = (kf_shots_classifier)c;
    jw_open(w, kf_shots_classifier_name(classifier), '{');
    print_json_spread(w, "top1", s, size, classifier, 0);
    print_json_spread(w, "top5", s, size, classifier, 1);
    jw_open(w, "draws", '[');
    for (uint32_t seed = 0; seed < s->seeds; seed++)
      print_json_draw(w, kf_shots_at(s, size, seed, classifier));
    jw_close(w, "]}");
  }
  jw_close(w, "}");
}

static void print_json(const void *result, sink *out) {
  const kf_shots *s = result;
  cli_json w = jw_begin(out->file);
  jw_count(&w, "classes", s->classes);
  jw_count(&w, "seeds", s->seeds);
  jw_open(&w, "shots", '[');
  for (size_t i = 0; i < s->n_sizes; i++) print_json_size(&w, s, i);
  jw_close(&w, "]");
  jw_end(&w);
}

static int draw_shots(shots_job *j) {
  const cli_args *a = &j->cli->args;
  kf_shots_options options = {.shots = a->shots.sizes.items,
                              .n_shots = a->shots.sizes.n,
                              .seeds = (uint32_t)a->shots.seeds.value,
                              .truth = j->truth,
                              .sample = (uint64_t)a->fit.sample.value,
                              .method = (kf_method)a->fit.method};
  return own_shots(j->cli,
                   kf_shots_new(j->cli->ctx, j->train, j->test, j->text, &options, &j->shots),
                   &j->shots);
}

static int check_options(cli_run *cli) {
  if (!cli->args.test.data.n) TRY(need(cli, "shots", "--test DATA"));
  TRY(refuse(cli,
             "dims lambdas neighbours metric centre between class-set no-raw no-prototypes fuse "
             "no-normalize text-centre folds leave-one-out",
             "--shots"));
  return check_text_options(cli);
}

static int prepare(shots_job *j) {
  cli_run *cli = j->cli;
  TRY(check_options(cli));
  TRY(check_table(cli));
  TRY(load_judging(cli, &j->truth, NULL));
  TRY(open_test(cli, j->truth, &j->test));
  TRY(open_data(cli, 0, LABELS_NEEDED, &j->train));
  if (cli->args.text.path) TRY(load_text(cli, &j->text));
  return EXIT_OK;
}

int sweep_shots(cli_run *cli) {
  static const table_fn print[3] = {print_text, print_csv, print_json};
  shots_job j = {.cli = cli};
  TRY(prepare(&j));
  TRY(draw_shots(&j));
  return write_table(cli, j.shots, print, j.shots->n_points, "figure", "figures");
}
