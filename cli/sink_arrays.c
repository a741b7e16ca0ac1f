/* sink_arrays.c - the answers of a search as arrays.
 *
 * With K rows for each query they are two matrices [n, k], row numbers (int64) and scores (f64):
 * OUT.npy and OUT_scores.npy hold one each, OUT.safetensors both. All sizes are known in advance,
 * so each block of answers goes to its place at once.
 *
 * With a limit they are a sparse matrix: `indptr` [n + 1], `rows` and `scores` [answers]; those
 * of query i are indptr[i] to indptr[i + 1]. Their number is known only at the end, so scores
 * wait in an unnamed file and are then copied behind the rows. Memory does not grow with the
 * answers. */
#include "sink.h"
#include "inputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS, SCORES };
enum { RANGES_HEADER = 1024, ENDS_AT_ONCE = 512 };

struct sink_arrays {
  cli_run *cli;
  const char *path, *metric;
  kf_output *files[2]; /* .npy: row numbers, scores; .safetensors: both in the first */
  uint64_t at[2];      /* where the two matrices begin */
  uint64_t n;          /* queries */
  uint32_t k;          /* 0: all rows within the limit */
  double limit;
  FILE *scores;               /* that wait; NULL: k > 0 */
  uint64_t queries, answers;  /* that have come */
  int64_t ends[ENDS_AT_ONCE]; /* of queries, not written yet */
  uint64_t n_ends;
};

/* --- headers ---------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t size, uint64_t to) { return (size + to - 1) / to * to; }

/* Writes a header of `padded` bytes at the beginning of a file: prefix, text, spaces and `last`.
 * The data after it are aligned. */
static int put_header(sink_arrays *a, kf_output *file, const char *prefix, size_t prefix_size,
                      const char *text, uint64_t padded, const char *last) {
  char header[RANGES_HEADER];
  memset(header, ' ', sizeof header);
  memcpy(header, prefix, prefix_size);
  memcpy(header + prefix_size, text, strlen(text));
  memcpy(header + padded - strlen(last), last, strlen(last));
  return result_of(a->cli, kf_output_write_at(a->cli->ctx, file, 0, header, padded));
}

static int put_npy_header(sink_arrays *a, int which) {
  static const char *const types[] = {"<i8", "<f8"};
  char prefix[10] = "\x93NUMPY\x01", text[128];
  int length =
      snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%llu, %u), }",
               types[which], (unsigned long long)a->n, a->k);
  uint64_t padded = round_up(sizeof prefix + (uint64_t)length + 1, 64);
  prefix[8] = (char)(padded - sizeof prefix); /* below 256 */
  a->at[which] = padded;
  return put_header(a, a->files[which], prefix, sizeof prefix, text, padded, "\n");
}

/* Adds an entry to a .safetensors header; *begin advances past its data. */
static int tensor_entry(char *to, size_t size, const char *name, const char *type,
                        const char *shape, uint64_t numbers, uint64_t *begin) {
  unsigned long long from = *begin, end = *begin += 8 * numbers;
  return snprintf(to, size,
                  ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", name,
                  type, shape, from, end);
}

/* padded 0: as short as possible. */
static int put_safetensors_header(sink_arrays *a, uint64_t padded) {
  char prefix[8] = "", text[RANGES_HEADER], shape[48], about[48];
  uint64_t begin = 0, numbers = a->k ? a->n * a->k : a->answers;
  if (a->k) {
    snprintf(about, sizeof about, "\"k\":\"%u\"", a->k);
    snprintf(shape, sizeof shape, "%llu,%u", (unsigned long long)a->n, a->k);
  } else {
    snprintf(about, sizeof about, "\"limit\":\"%.17g\"", a->limit);
    snprintf(shape, sizeof shape, "%llu", (unsigned long long)a->n + 1);
  }
  int at = snprintf(
      text, sizeof text,
      "{\"__metadata__\":{\"format\":\"koofu.answers\",\"version\":\"1\",%s,\"metric\":\"%s\"}",
      about, a->metric);
  if (!a->k) {
    at +=
        tensor_entry(text + at, sizeof text - (size_t)at, "indptr", "I64", shape, a->n + 1, &begin);
    snprintf(shape, sizeof shape, "%llu", (unsigned long long)a->answers);
  }
  at += tensor_entry(text + at, sizeof text - (size_t)at, "rows", "I64", shape, numbers, &begin);
  at += tensor_entry(text + at, sizeof text - (size_t)at, "scores", "F64", shape, numbers, &begin);
  strcpy(text + at, "}");
  if (!padded) padded = round_up(sizeof prefix + (uint64_t)at + 1, 8);
  for (size_t i = 0; i < sizeof prefix; i++) /* little-endian */
    prefix[i] = (char)((padded - sizeof prefix) >> (8 * i));
  a->at[ROWS] = padded;
  a->at[SCORES] = padded + 8 * numbers;
  return put_header(a, a->files[ROWS], prefix, sizeof prefix, text, padded, "");
}

/* --- opening and finishing -------------------------------------------------------------------- */

static void discard(void *object) {
  sink_arrays *a = object;
  kf_output_free(a->files[ROWS]);
  kf_output_free(a->files[SCORES]);
  if (a->scores) fclose(a->scores);
  free(a);
}

const char *scores_path(cli_run *cli, const char *path) {
  return own_format(cli, "%.*s_scores.npy", (int)(strlen(path) - strlen(".npy")), path);
}

static int open_file(sink_arrays *a, int which, const char *path) {
  if (!path) return fail(a->cli, KF_ERR_MEM);
  return result_of(a->cli, kf_output_open(a->cli->ctx, path, &a->files[which]));
}

static int fail_scores(const sink_arrays *a, const char *problem) {
  if (errno == ENOMEM) return fail(a->cli, KF_ERR_MEM);
  return fail_with(a->cli, EXIT_IO, "%s: %s: %s", a->path, problem,
                   errno ? strerror(errno) : "some are missing");
}

static const char not_kept[] = "scores cannot be kept in a temporary file";

static int open_scores(sink_arrays *a) {
  int fd = open_temporary(a->path);
  a->scores = fd >= 0 ? fdopen(fd, "w+") : NULL;
  if (a->scores) return EXIT_OK;
  if (fd >= 0) close(fd);
  return fail_scores(a, not_kept);
}

int sink_open_arrays(cli_run *cli, const char *path, uint64_t n, uint32_t k, double limit,
                     const char *metric, sink_arrays **out) {
  sink_arrays *a = calloc(1, sizeof *a);
  if (!a) return fail(cli, KF_ERR_MEM);
  *a = (sink_arrays){
      .cli = cli, .path = path, .metric = metric, .n = n, .k = k, .limit = limit, .n_ends = 1};
  TRY(own(cli, a, discard));
  *out = a;
  TRY(open_file(a, ROWS, path));
  if (k == 0) return open_scores(a);
  if (!ends_with(path, ".npy")) return put_safetensors_header(a, 0);
  TRY(open_file(a, SCORES, scores_path(cli, path)));
  TRY(put_npy_header(a, ROWS));
  return put_npy_header(a, SCORES);
}

/* --- matrices --------------------------------------------------------------------------------- */

static int put_matrix(sink_arrays *a, int which, uint64_t first, const void *values, uint64_t n) {
  uint64_t size = 8 * (uint64_t)a->k;
  return result_of(a->cli,
                   kf_output_write_at(a->cli->ctx, a->files[a->files[SCORES] ? which : ROWS],
                                      a->at[which] + first * size, values, n * size));
}

int sink_put_arrays(sink_arrays *a, uint64_t first, uint64_t n, const int64_t *rows,
                    const double *scores) {
  TRY(put_matrix(a, ROWS, first, rows, n));
  return put_matrix(a, SCORES, first, scores, n);
}

/* --- sparse matrices -------------------------------------------------------------------------- */

static uint64_t ranges_at(const sink_arrays *a) { return RANGES_HEADER + 8 * (a->n + 1); }

/* a->queries + 1 ends are known; the last n_ends of them are in memory. */
static int write_ends(sink_arrays *a) {
  uint64_t first = a->queries + 1 - a->n_ends;
  TRY(result_of(a->cli, kf_output_write_at(a->cli->ctx, a->files[ROWS], RANGES_HEADER + 8 * first,
                                           a->ends, 8 * a->n_ends)));
  a->n_ends = 0;
  return EXIT_OK;
}

static int put_end(sink_arrays *a) {
  if (a->n_ends == ENDS_AT_ONCE) TRY(write_ends(a));
  a->ends[a->n_ends++] = (int64_t)a->answers;
  a->queries++;
  return EXIT_OK;
}

/* Queries before this one that have not come have no answers. */
static int skip_to(sink_arrays *a, uint64_t query) {
  while (a->queries < query) TRY(put_end(a));
  return EXIT_OK;
}

int sink_put_ranges(sink_arrays *a, const kf_ranges *r, const uint64_t *numbers, uint64_t before) {
  uint64_t n = r->queries > 0 ? r->ends[r->queries - 1] : 0, answers = a->answers;
  TRY(result_of(a->cli, kf_output_write_at(a->cli->ctx, a->files[ROWS], ranges_at(a) + 8 * answers,
                                           r->rows, 8 * n)));
  if (n && fwrite(r->scores, 8, n, a->scores) != n) return fail_scores(a, not_kept);
  for (uint64_t i = 0; i < r->queries; i++) {
    if (numbers) TRY(skip_to(a, before + numbers[i]));
    a->answers = answers + r->ends[i];
    TRY(put_end(a));
  }
  return EXIT_OK;
}

static int copy_scores(sink_arrays *a) {
  char bytes[1 << 16];
  uint64_t at = ranges_at(a) + 8 * a->answers, end = at + 8 * a->answers;
  if (fflush(a->scores) != 0) return fail_scores(a, not_kept);
  rewind(a->scores);
  for (size_t n; at < end; at += n) {
    errno = 0;
    n = fread(bytes, 1, sizeof bytes, a->scores);
    if (n == 0) return fail_scores(a, "scores cannot be read back");
    TRY(result_of(a->cli, kf_output_write_at(a->cli->ctx, a->files[ROWS], at, bytes, n)));
  }
  return EXIT_OK;
}

static int finish_ranges(sink_arrays *a) {
  TRY(skip_to(a, a->n));
  TRY(write_ends(a));
  TRY(put_safetensors_header(a, RANGES_HEADER));
  return copy_scores(a);
}

int sink_finish_arrays(sink_arrays *a) {
  if (a->scores) TRY(finish_ranges(a));
  for (int i = ROWS; i <= SCORES && a->files[i]; i++) {
    kf_output *file = a->files[i];
    a->files[i] = NULL; /* freed by the commit in any case */
    TRY(result_of(a->cli, kf_output_commit(a->cli->ctx, file)));
  }
  return EXIT_OK;
}
