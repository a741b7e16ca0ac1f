/* knn.c - the paper's table of search times, with ordinary calls of the library: rows in an index,
 * queries and answers on the host. See run.sh. Prints one line for each width and case:
 *
 *     knn [--rows N] [--queries Q,…] [--k K,…] [--memory pinned,pageable,file] [--f16] [--limits]
 *         [--kind normal|clusters|outliers|copies] [--data FILE --asked FILE] [--check QUERIES]
 *         [--brute QUERIES] [--repeat R] [--plugin FILE] [--device NAME] [--folder DIR] DIM...
 *
 * --memory: queries are in pinned memory, in pageable memory, or in a file in the page cache, whose
 * reading is then included. --data, --asked: rows and queries of these files, repeated as needed,
 * instead of random ones. --check: this many queries are also searched on the CPU, and lists and
 * scores must be equal; --brute: this many are compared with all rows in f64. --limits: times must
 * stay within those in `peers`. The exit status is 1 if anything is wrong or too slow. */
#include "device/device_api.h"
#include "koofu_comm.h"
#include "made_rows.h"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#define MAX_CASES 8u
enum { PINNED, PAGEABLE, A_FILE, N_MEMORIES };
static const char *const memories[] = {"pinned", "pageable", "file"};

typedef struct numbers {
  uint64_t value[MAX_CASES];
  uint32_t n;
} numbers;

typedef struct settings {
  uint64_t rows, check, brute;
  numbers queries, k, memory;
  int kind, f16, limits, repeat;
  const char *plugin, *device, *data, *asked, *folder;
} settings;

/* Figures measured elsewhere, seconds: the paper's, and FAISS 1.15 in fp32 on an H200, for 50,000
 * queries in 1,281,167 rows, k = 15; and limits for koofu (0: it must only be 20 times faster than
 * the paper and 18 times faster than FAISS). */
static const struct peer {
  uint32_t dim;
  double paper, faiss, limit;
} peers[] = {{768, 2.47, 2.197, 0.095}, {640, 2.37, 2.099, 0},     {512, 1.97, 1.786, 0},
             {384, 1.57, 1.371, 0},     {256, 1.23, 1.077, 0.030}, {192, 1.00, 0.866, 0},
             {128, 0.76, 0.661, 0},     {96, 0.63, 0.540, 0},      {76, 0.59, 0.502, 0},
             {64, 0.55, 0.467, 0.012},  {32, 0.45, 0.383, 0.010}};
#define INT8_PEAK 1979e12 /* operations per second of an H100 or H200, dense */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- the plug-in, for pinned memory and the free memory of the device ------------------------- */

typedef struct locked {
  const kf_device_api *api;
  kf_dev *dev;
} locked;

static void locked_open(locked *l, const settings *s) {
  char message[256] = "";
  void *library = dlopen(s->plugin, RTLD_NOW);
  void *symbol = library != NULL ? dlsym(library, KF_DEVICE_SYMBOL) : NULL;
  if (symbol == NULL) {
    fprintf(stderr, "knn: --plugin FILE is needed\n");
    exit(1);
  }
  kf_device_plugin_fn plugin;
  memcpy(&plugin, &symbol, sizeof plugin);
  l->api = plugin(KF_DEVICE_VERSION);
  if (l->api == NULL || l->api->open(0, &l->dev, message, sizeof message) != KF_DEV_OK) {
    fprintf(stderr, "knn: %s\n", message);
    exit(1);
  }
}

static double memory_left(const locked *l) {
  uint64_t bytes = 0;
  l->api->memory_left(l->dev, &bytes);
  return (double)bytes * 1e-9;
}

/* --- one width -------------------------------------------------------------------------------- */

typedef struct bench {
  const settings *s;
  kf_ctx *ctx;
  const locked *l;
  uint32_t dim;
  float *rows, *queries; /* in pageable memory */
  kf_index *index;
  double build, first, memory; /* seconds; GB on the device */
} bench;

/* One line. */
typedef struct figures {
  const bench *b;
  uint64_t queries, wrong, far; /* lists unlike the CPU's; rows unlike those of brute force */
  uint32_t k;
  int memory;
  double *times, candidates;
} figures;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The number of lists, of some evenly spaced queries, that differ from the CPU's. */
static uint64_t count_wrong(const bench *b, uint64_t queries, uint32_t k, const int64_t *rows,
                            const double *scores) {
  kf_ctx_options options = {.device = "cpu"};
  kf_ctx *cpu;
  uint64_t n = b->s->check < queries ? b->s->check : queries, wrong = 0;
  if (n == 0) return 0;
  check_ok(NULL, kf_ctx_new(&options, &cpu));
  float *some = need(malloc(n * b->dim * sizeof *some));
  int64_t *cpu_rows = need(malloc(n * k * sizeof *cpu_rows));
  double *cpu_scores = need(malloc(n * k * sizeof *cpu_scores));
  for (uint64_t i = 0; i < n; i++)
    memcpy(some + i * b->dim, b->queries + i * queries / n * b->dim, b->dim * sizeof *some);
  check_ok(cpu, kf_search(cpu, b->index, some, n, k, NULL, cpu_rows, cpu_scores, NULL));
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = i * queries / n * k;
    wrong += memcmp(rows + at, cpu_rows + i * k, k * sizeof *rows) != 0 ||
             memcmp(scores + at, cpu_scores + i * k, k * sizeof *scores) != 0;
  }
  free(some);
  free(cpu_rows);
  free(cpu_scores);
  kf_ctx_free(cpu);
  return wrong;
}

static uint64_t count_far(const bench *b, uint64_t queries, uint32_t k, const int64_t *rows) {
  uint64_t n = b->s->brute < queries ? b->s->brute : queries, wrong = 0;
  if (n == 0) return 0;
  double *scores = need(malloc(b->s->rows * sizeof *scores));
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = i * queries / n;
    brute_job job = {b->rows, b->queries + at * b->dim, b->s->rows, b->dim, scores};
    wrong += brute_wrong(&job, rows + at * k, k);
  }
  free(scores);
  return wrong;
}

/* Prints the time beside the peers'; returns whether it is short enough. */
static int judge(const figures *f, double seconds) {
  const settings *s = f->b->s;
  int missed = 0, same = s->rows == 1281167 && f->queries == 50000 && f->k == 15;
  for (size_t i = 0; i < sizeof peers / sizeof *peers && same; i++) {
    if (peers[i].dim != f->b->dim || s->data != NULL) continue;
    double paper = peers[i].paper / seconds, faiss = peers[i].faiss / seconds;
    printf("  paper %.2f s, %.1f x; FAISS %.3f s, %.1f x", peers[i].paper, paper, peers[i].faiss,
           faiss);
    if (!s->limits || f->memory != PINNED) continue;
    missed = paper < 20 || faiss < 18 || (peers[i].limit > 0 && seconds > peers[i].limit);
    if (peers[i].limit > 0) printf("; at most %.0f ms", peers[i].limit * 1e3);
    printf(missed ? ": MISSED" : ": kept");
  }
  return missed;
}

/* Returns whether anything is wrong. */
static int print_line(const figures *f) {
  const bench *b = f->b;
  int repeat = b->s->repeat;
  double middle = f->times[repeat / 2];
  double operations = 2.0 * (double)b->s->rows * (double)f->queries * b->dim;
  printf("%4u %-8s %6llu %4u %10.3f %9.3f %9.3f %6.0f %5.1f%% %9.1f %6.2f", b->dim,
         memories[f->memory], (unsigned long long)f->queries, f->k, middle * 1e3, f->times[0] * 1e3,
         f->times[repeat - 1] * 1e3, operations / middle * 1e-12,
         operations / middle / INT8_PEAK * 100, f->candidates, b->memory);
  int bad = judge(f, middle);
  if (b->s->check > 0) printf("  %llu wrong", (unsigned long long)f->wrong);
  if (b->s->brute > 0) printf(", %llu not nearest", (unsigned long long)f->far);
  printf("\n");
  fflush(stdout);
  return bad || f->wrong > 0 || f->far > 0;
}

/* --- queries ---------------------------------------------------------------------------------- */

typedef struct file_job {
  char path[4096];
  kf_ctx *ctx[MAKERS];
  const kf_data *data;
  float *to;
  uint64_t n;
  uint32_t dim;
} file_job;

static void write_file(file_job *j, const bench *b, uint64_t n) {
  char header[128];
  kf_ctx_options options = {.device = "cpu", .threads = 1};
  j->n = n;
  j->dim = b->dim;
  snprintf(j->path, sizeof j->path, "%s/bench-cuda-queries.npy", b->s->folder);
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
  int length =
      snprintf(header + 10, 100, "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, %u), }",
               (unsigned long long)n, b->dim);
  header[10 + length] = ' ';
  header[127] = '\n';
  FILE *file = fopen(j->path, "wb");
  if (file == NULL || fwrite(header, 128, 1, file) != 1 ||
      fwrite(b->queries, n * b->dim * sizeof(float), 1, file) != 1 || fclose(file) != 0) {
    fprintf(stderr, "knn: cannot write %s\n", j->path);
    exit(1);
  }
  for (unsigned i = 0; i < MAKERS; i++) check_ok(NULL, kf_ctx_new(&options, &j->ctx[i]));
}

static void read_some(void *job, unsigned part) {
  const file_job *j = job;
  uint64_t first = j->n * part / MAKERS, last = j->n * (part + 1) / MAKERS;
  if (last == first) return;
  check_ok(j->ctx[part],
           kf_data_get(j->ctx[part], j->data, first, last - first, j->to + first * j->dim, NULL));
}

static void read_file(file_job *j, kf_ctx *ctx, float *to) {
  kf_data *data;
  const char *path = j->path;
  check_ok(ctx, kf_data_open(ctx, &path, 1, NULL, &data));
  j->data = data;
  j->to = to;
  make_all(read_some, j);
  kf_data_free(data);
}

static void end_file(file_job *j) {
  remove(j->path);
  for (unsigned i = 0; i < MAKERS; i++) kf_ctx_free(j->ctx[i]);
}

/* --- cases ------------------------------------------------------------------------------------ */

/* Searches `repeat` times after one search that is not counted. */
static void time_case(figures *f, float *queries, file_job *file, int64_t *found, double *scores) {
  const bench *b = f->b;
  for (int i = -1; i < b->s->repeat; i++) {
    kf_search_report report = {0};
    double start = now();
    if (file != NULL) read_file(file, b->ctx, queries);
    check_ok(b->ctx, kf_search(b->ctx, b->index, queries, f->queries, f->k, NULL, found, scores,
                               i < 0 ? &report : NULL));
    if (i >= 0) f->times[i] = now() - start;
    if (i < 0) f->candidates = (double)report.candidates / (double)f->queries;
  }
  qsort(f->times, (size_t)b->s->repeat, sizeof *f->times, by_value);
}

static int run_case(const bench *b, uint64_t n, uint32_t k, int memory) {
  figures f = {.b = b, .queries = n, .k = k, .memory = memory};
  size_t size = n * b->dim * sizeof(float);
  file_job file;
  bool pinned = memory != PAGEABLE; /* a file is read into pinned memory */
  float *queries = need(pinned ? b->l->api->host_alloc(b->l->dev, size) : malloc(size));
  int64_t *found = need(malloc(n * k * sizeof *found));
  double *scores = need(malloc(n * k * sizeof *scores));
  f.times = need(malloc((size_t)b->s->repeat * sizeof *f.times));
  memcpy(queries, b->queries, size);
  if (b->s->check > 0) sleep(2); /* let the cores cool down after the last check */
  if (memory == A_FILE) write_file(&file, b, n);
  time_case(&f, queries, memory == A_FILE ? &file : NULL, found, scores);
  if (memory == A_FILE) end_file(&file);
  f.wrong = count_wrong(b, n, k, found, scores);
  f.far = count_far(b, n, k, found);
  int bad = print_line(&f);
  if (pinned)
    b->l->api->host_free(b->l->dev, queries);
  else
    free(queries);
  free(found);
  free(scores);
  free(f.times);
  return bad;
}

static uint64_t most_queries(const settings *s) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < s->queries.n; i++)
    if (s->queries.value[i] > most) most = s->queries.value[i];
  return most;
}

/* Rows, their index, and a first search, which copies them to the device. */
static void make_index(bench *b) {
  const settings *s = b->s;
  uint64_t n = most_queries(s), few = n < 1000 ? n : 1000;
  int64_t *found = need(malloc(few * sizeof *found));
  double *scores = need(malloc(few * sizeof *scores));
  b->rows = need(malloc(s->rows * b->dim * sizeof *b->rows));
  b->queries = need(malloc(n * b->dim * sizeof *b->queries));
  if (s->data != NULL) {
    read_rows(b->ctx, s->data, b->rows, s->rows, b->dim);
    read_rows(b->ctx, s->asked != NULL ? s->asked : s->data, b->queries, n, b->dim);
  } else {
    fill_rows(b->rows, s->rows, b->dim, (uint64_t)1 << 40, s->kind);
    fill_rows(b->queries, n, b->dim, (uint64_t)1 << 50, s->kind);
  }
  kf_index_options options = {
      .metric = KF_METRIC_INNER, .rows_in_place = !s->f16, .dtype = s->f16 ? KF_F16 : KF_F32};
  double start = now();
  check_ok(b->ctx, kf_index_new(b->ctx, b->rows, s->rows, b->dim, &options, &b->index));
  b->build = now() - start;
  double before = memory_left(b->l);
  start = now();
  check_ok(b->ctx, kf_search(b->ctx, b->index, b->queries, few, 1, NULL, found, scores, NULL));
  b->first = now() - start;
  b->memory = before - memory_left(b->l);
  free(found);
  free(scores);
}

static int run_width(const settings *s, kf_ctx *ctx, const locked *l, uint32_t dim) {
  bench b = {.s = s, .ctx = ctx, .l = l, .dim = dim};
  int bad = 0;
  make_index(&b);
  for (uint32_t m = 0; m < s->memory.n; m++)
    for (uint32_t q = 0; q < s->queries.n; q++)
      for (uint32_t k = 0; k < s->k.n; k++)
        bad |= run_case(&b, s->queries.value[q], (uint32_t)s->k.value[k], (int)s->memory.value[m]);
  double planned = (double)s->rows * ((dim + 31) / 32 * 32 + dim * (s->f16 ? 2.0 : 4.0)) * 1e-9;
  printf("%4u: index made in %.2f s, brought to the device in %.2f s; %.2f GB there, of which rows "
         "%.2f\n",
         dim, b.build, b.first, b.memory, planned);
  kf_index_free(b.index);
  free(b.rows);
  free(b.queries);
  return bad;
}

/* --- options ---------------------------------------------------------------------------------- */

static _Noreturn void refuse(const char *what, const char *word) {
  fprintf(stderr, "knn: unknown %s '%s'\n", what, word);
  exit(2);
}

static uint64_t place_of(const char *const *names, int n, const char *what, const char *word) {
  for (int i = 0; i < n; i++)
    if (strcmp(word, names[i]) == 0) return (uint64_t)i;
  refuse(what, word);
}

static numbers list_of(const char *text, int words) {
  numbers out = {.n = 0};
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *at = copy, *word; (word = strsep(&at, ",")) != NULL && out.n < MAX_CASES;)
    out.value[out.n++] =
        words ? place_of(memories, N_MEMORIES, "memory", word) : strtoull(word, NULL, 10);
  return out;
}

/* Parses one option; returns the number of words it took, 0 if it is unknown. */
static int take(settings *s, int left, char **word) {
  if (strcmp(word[0], "--f16") == 0) return s->f16 = 1;
  if (strcmp(word[0], "--limits") == 0) return s->limits = 1;
  if (strncmp(word[0], "--", 2) != 0) return 0;
  const char *name = word[0] + 2, *value = left > 1 ? word[1] : "";
  if (strcmp(name, "rows") == 0)
    s->rows = strtoull(value, NULL, 10);
  else if (strcmp(name, "queries") == 0)
    s->queries = list_of(value, 0);
  else if (strcmp(name, "k") == 0)
    s->k = list_of(value, 0);
  else if (strcmp(name, "memory") == 0)
    s->memory = list_of(value, 1);
  else if (strcmp(name, "kind") == 0)
    s->kind = (int)place_of(kinds, N_KINDS, "kind", value);
  else if (strcmp(name, "check") == 0)
    s->check = strtoull(value, NULL, 10);
  else if (strcmp(name, "brute") == 0)
    s->brute = strtoull(value, NULL, 10);
  else if (strcmp(name, "repeat") == 0)
    s->repeat = (int)strtol(value, NULL, 10);
  else if (strcmp(name, "data") == 0)
    s->data = value;
  else if (strcmp(name, "asked") == 0)
    s->asked = value;
  else if (strcmp(name, "folder") == 0)
    s->folder = value;
  else if (strcmp(name, "plugin") == 0)
    s->plugin = value;
  else if (strcmp(name, "device") == 0)
    s->device = value;
  else
    refuse("option", word[0]);
  return 2;
}

int main(int argc, char **argv) {
  settings s = {.rows = 1281167,
                .queries = {{50000}, 1},
                .k = {{15}, 1},
                .memory = {{PINNED}, 1},
                .check = 200,
                .repeat = 5,
                .device = "cuda",
                .folder = "."};
  int at = 1, words, bad = 0;
  locked l = {0};
  while (at < argc && (words = take(&s, argc - at, argv + at)) > 0) at += words;
  if (s.repeat < 1) s.repeat = 1;
  kf_ctx_options options = {.device = s.device, .device_plugin = s.plugin};
  kf_ctx *ctx;
  const kf_device_list *devices;
  check_ok(NULL, kf_ctx_new(&options, &ctx));
  check_ok(ctx, kf_devices_find(ctx, &devices));
  locked_open(&l, &s);
  printf("%s, %llu rows%s, %s, median of %d\n", devices->n > 0 ? devices->devices[0].name : "CPU",
         (unsigned long long)s.rows, s.f16 ? " in f16" : "",
         s.data != NULL ? "of a file" : kinds[s.kind], s.repeat);
  printf("   d memory   asked    k         ms     least      most TOP/s   peak survivors     GB\n");
  for (; at < argc; at++) bad |= run_width(&s, ctx, &l, (uint32_t)strtoul(argv[at], NULL, 10));
  if (s.data != NULL) bad |= run_width(&s, ctx, &l, file_dim(ctx, s.data));
  l.api->close(l.dev);
  kf_ctx_free(ctx);
  return bad;
}
