/* array_out.c - the answers of a search as two arrays [n, k]: row numbers (int64) and scores (f64).
 *
 * OUT.npy and OUT_scores.npy hold one each; OUT.safetensors holds both, as `rows` and `scores`. All
 * sizes are known before the first answer, so each block of answers is written to its place at once. */
#include "array_out.h"
#include "outputs.h"

#include <stdio.h>
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
static int put_header(cli_run *cli, kf_output *file, const char *prefix, size_t prefix_size,
                      const char *text, size_t padded, const char *last) {
  char header[1024];
  memcpy(header, prefix, prefix_size);
  snprintf(header + prefix_size, sizeof header - prefix_size, "%-*s%s",
           (int)(padded - prefix_size - strlen(last)), text, last);
  return result_of(cli, kf_output_write(cli->ctx, file, header, padded));
}

static size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

static int put_npy_header(cli_run *cli, array_out *out, int which, uint64_t n) {
  char prefix[10] = "\x93NUMPY\x01", text[128];
  int length =
      snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%llu, %u), }",
               npy_types[which], (unsigned long long)n, out->k);
  size_t padded = round_up(sizeof prefix + (size_t)length + 1, 64);
  prefix[8] = (char)(padded - sizeof prefix); /* below 256 */
  out->at[which] = padded;
  return put_header(cli, out->files[which], prefix, sizeof prefix, text, padded, "\n");
}

static int put_safetensors_header(cli_run *cli, array_out *out, uint64_t n, const char *metric) {
  char prefix[8] = "", text[512];
  unsigned long long rows = n, bytes = 8 * n * out->k;
  unsigned k = out->k;
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
  out->at[ROWS] = padded;
  out->at[SCORES] = padded + bytes;
  return put_header(cli, out->files[ROWS], prefix, sizeof prefix, text, padded, "");
}

static int open_npy(cli_run *cli, array_out *out, const char *path, uint64_t n) {
  out->scores_path = scores_path(path);
  if (!out->scores_path) return fail(cli, KF_ERR_MEM);
  const char *const paths[] = {path, out->scores_path};
  for (int i = ROWS; i <= SCORES; i++) {
    TRY(result_of(cli, kf_output_open(cli->ctx, paths[i], &out->files[i])));
    TRY(put_npy_header(cli, out, i, n));
  }
  return EXIT_OK;
}

int array_out_open(cli_run *cli, array_out *out, const char *path, uint64_t n, uint32_t k,
                   const char *metric) {
  memset(out, 0, sizeof *out);
  out->k = k;
  if (ends_with(path, ".npy")) return open_npy(cli, out, path, n);
  TRY(result_of(cli, kf_output_open(cli->ctx, path, &out->files[ROWS])));
  return put_safetensors_header(cli, out, n, metric);
}

static int put_array(cli_run *cli, const array_out *out, int which, uint64_t first,
                     const void *values, uint64_t n) {
  uint64_t size = 8 * (uint64_t)out->k;
  return result_of(cli, kf_output_write_at(cli->ctx, out->files[out->scores_path ? which : ROWS],
                                           out->at[which] + first * size, values, n * size));
}

int array_out_put(cli_run *cli, array_out *out, uint64_t first, uint64_t n, const int64_t *rows,
                  const double *scores) {
  TRY(put_array(cli, out, ROWS, first, rows, n));
  return put_array(cli, out, SCORES, first, scores, n);
}

int array_out_commit(cli_run *cli, array_out *out) {
  for (int i = ROWS; i <= SCORES && out->files[i]; i++) {
    kf_output *file = out->files[i];
    out->files[i] = NULL; /* freed by the commit in any case */
    TRY(result_of(cli, kf_output_commit(cli->ctx, file)));
  }
  return EXIT_OK;
}

void array_out_abort(array_out *out) {
  kf_output_free(out->files[ROWS]);
  kf_output_free(out->files[SCORES]);
  free(out->scores_path);
}
