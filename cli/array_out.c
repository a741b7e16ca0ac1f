/* array_out.c - the answers of a search as two arrays [n, k]: row numbers (int64) and scores (f64).
 *
 * OUT.npy and OUT_scores.npy hold one each; OUT.safetensors holds both, as `rows` and `scores`. All
 * sizes are known before the first answer, so each block of answers is written to its place at once. */
#include "array_out.h"
#include "outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS, SCORES };
static const char *const npy_types[] = {"<i8", "<f8"};

char *scores_path(const char *path) {
  char *name;
  int stem = (int)(strlen(path) - strlen(".npy"));
  return asprintf(&name, "%.*s_scores.npy", stem, path) < 0 ? NULL : name;
}

/* Writes a header of `padded` bytes: prefix, text, spaces and `last`. The data after it are aligned. */
static off_t put_header(FILE *file, const char *prefix, size_t prefix_size, const char *text,
                        size_t padded, const char *last) {
  fwrite(prefix, 1, prefix_size, file);
  fprintf(file, "%-*s%s", (int)(padded - prefix_size - strlen(last)), text, last);
  return (off_t)padded;
}

static size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

static off_t put_npy_header(FILE *file, const char *type, uint64_t n, uint32_t k) {
  char prefix[10] = "\x93NUMPY\x01", text[128];
  int length =
      snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%llu, %u), }",
               type, (unsigned long long)n, k);
  size_t padded = round_up(sizeof prefix + (size_t)length + 1, 64);
  prefix[8] = (char)(padded - sizeof prefix); /* below 256 */
  return put_header(file, prefix, sizeof prefix, text, padded, "\n");
}

static off_t put_safetensors_header(FILE *file, uint64_t n, uint32_t k, const char *metric) {
  char prefix[8] = "", text[512];
  unsigned long long rows = n, bytes = 8 * n * k;
  int length =
      snprintf(text, sizeof text,
               "{\"__metadata__\":{\"format\":\"koofu.answers\",\"version\":\"1\",\"k\":\"%u\","
               "\"metric\":\"%s\"},"
               "\"rows\":{\"dtype\":\"I64\",\"shape\":[%llu,%u],\"data_offsets\":[0,%llu]},"
               "\"scores\":{\"dtype\":\"F64\",\"shape\":[%llu,%u],\"data_offsets\":[%llu,%llu]}"
               "}",
               k, metric, rows, k, bytes, rows, k, bytes, 2 * bytes);
  size_t padded = round_up(sizeof prefix + (size_t)length, 8);
  for (size_t i = 0; i < sizeof prefix; i++) /* little-endian */
    prefix[i] = (char)((padded - sizeof prefix) >> (8 * i));
  return put_header(file, prefix, sizeof prefix, text, padded, "");
}

static int open_npy(cli_run *cli, array_out *out, const char *path, uint64_t n) {
  out->scores_path = scores_path(path);
  if (!out->scores_path) return fail(cli, KF_ERR_MEM);
  const char *const paths[] = {path, out->scores_path};
  for (int i = ROWS; i <= SCORES; i++) {
    TRY(out_file_open(cli, &out->files[i], paths[i]));
    out->at[i] = put_npy_header(out->files[i].file, npy_types[i], n, out->k);
  }
  return EXIT_OK;
}

int array_out_open(cli_run *cli, array_out *out, const char *path, uint64_t n, uint32_t k,
                   const char *metric) {
  memset(out, 0, sizeof *out);
  out->k = k;
  if (ends_with(path, ".npy")) return open_npy(cli, out, path, n);
  TRY(out_file_open(cli, &out->files[ROWS], path));
  out->at[ROWS] = put_safetensors_header(out->files[ROWS].file, n, k, metric);
  out->at[SCORES] = out->at[ROWS] + (off_t)(8 * n * k);
  return EXIT_OK;
}

static int put_array(cli_run *cli, array_out *out, int which, uint64_t first, const void *values,
                     uint64_t n) {
  out_file *file = &out->files[out->scores_path ? which : ROWS];
  errno = 0;
  if (fseeko(file->file, out->at[which] + (off_t)(8 * first * out->k), SEEK_SET) == 0 &&
      fwrite(values, 8 * (size_t)out->k, n, file->file) == n)
    return EXIT_OK;
  return out_file_fail(cli, file, "cannot be written");
}

int array_out_put(cli_run *cli, array_out *out, uint64_t first, uint64_t n, const int64_t *rows,
                  const double *scores) {
  TRY(put_array(cli, out, ROWS, first, rows, n));
  return put_array(cli, out, SCORES, first, scores, n);
}

int array_out_commit(cli_run *cli, array_out *out) {
  return out_files_commit(cli, out->files, COUNT_OF(out->files));
}

void array_out_abort(array_out *out) {
  out_file_abort(&out->files[ROWS]);
  out_file_abort(&out->files[SCORES]);
  free(out->scores_path);
}
