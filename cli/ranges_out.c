/* ranges_out.c - all rows within a limit of each query: `indptr` [n + 1], `rows` and `scores` [answers].
 *
 * The answers of query i are those from indptr[i] to indptr[i + 1], so that other programs have a sparse
 * matrix at once. How many there are is known at the end alone: rows are written to their places as they
 * come, scores to a file without a name, from which they are copied behind the rows. Memory does not grow
 * with the answers. */
#include "ranges_out.h"
#include "outputs.h"
#include "streams.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEADER = 1024 }; /* bytes, with its length */

static uint64_t rows_at(const ranges_out *out) { return HEADER + 8 * (out->n + 1); }

int ranges_out_open(cli_run *cli, ranges_out *out, const char *path, uint64_t n, double limit,
                    const char *metric) {
  *out = (ranges_out){.scores = -1, .n = n, .limit = limit, .metric = metric, .waiting = 1};
  TRY(result_of(cli, kf_output_open(cli->ctx, path, &out->file)));
  out->scores = open_workspace(path);
  if (out->scores >= 0) return EXIT_OK;
  return fail_with(cli, EXIT_IO, "%s: scores cannot be kept meanwhile: %s", path, strerror(errno));
}

/* --- ends of queries ---------------------------------------------------------------------------- */

/* out->queries of n + 1 numbers have been put; the last `waiting` of them are in memory. */
static int write_ends(cli_run *cli, ranges_out *out) {
  uint64_t first = out->queries + 1 - out->waiting;
  TRY(result_of(cli, kf_output_write_at(cli->ctx, out->file, HEADER + 8 * first, out->ends,
                                        8 * out->waiting)));
  out->waiting = 0;
  return EXIT_OK;
}

static int put_end(cli_run *cli, ranges_out *out, uint64_t end) {
  if (out->waiting == RANGES_AT_ONCE) TRY(write_ends(cli, out));
  out->ends[out->waiting++] = (int64_t)end;
  out->queries++;
  return EXIT_OK;
}

/* Queries up to this one, without answers. */
static int put_none(cli_run *cli, ranges_out *out, uint64_t query) {
  while (out->queries < query) TRY(put_end(cli, out, out->answers));
  return EXIT_OK;
}

/* --- answers ------------------------------------------------------------------------------------ */

static int keep_scores(cli_run *cli, const ranges_out *out, const double *scores, uint64_t n) {
  const char *bytes = (const char *)scores;
  for (uint64_t left = 8 * n; left > 0;) {
    ssize_t written = write(out->scores, bytes, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return fail_with(cli, EXIT_IO, "%s: scores cannot be kept meanwhile: %s", cli->args.output,
                       strerror(errno));
    bytes += written;
    left -= (uint64_t)written;
  }
  return EXIT_OK;
}

int ranges_out_put(cli_run *cli, ranges_out *out, const kf_ranges *r, const uint64_t *numbers,
                   uint64_t before) {
  uint64_t n = r->queries > 0 ? r->ends[r->queries - 1] : 0;
  TRY(result_of(cli, kf_output_write_at(cli->ctx, out->file, rows_at(out) + 8 * out->answers,
                                        r->rows, 8 * n)));
  TRY(keep_scores(cli, out, r->scores, n));
  uint64_t answers = out->answers;
  for (uint64_t i = 0; i < r->queries; i++) {
    if (numbers) TRY(put_none(cli, out, before + numbers[i]));
    out->answers = answers + r->ends[i];
    TRY(put_end(cli, out, out->answers));
  }
  return EXIT_OK;
}

/* --- the end ------------------------------------------------------------------------------------ */

static int put_header(cli_run *cli, ranges_out *out) {
  char header[HEADER + 1] = "";
  unsigned long long n = out->n + 1, m = out->answers, rows = 8 * n, scores = rows + 8 * m;
  int length = snprintf(
      header + 8, sizeof header - 8,
      "{\"__metadata__\":{\"format\":\"koofu.answers\",\"version\":\"1\",\"limit\":\"%.17g\","
      "\"metric\":\"%s\"},\"indptr\":{\"dtype\":\"I64\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}"
      ","
      "\"rows\":{\"dtype\":\"I64\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]},"
      "\"scores\":{\"dtype\":\"F64\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}}",
      out->limit, out->metric, n, rows, m, rows, scores, m, scores, scores + 8 * m);
  memset(header + 8 + length, ' ', (size_t)(HEADER - 8 - length));
  header[0] = (char)((HEADER - 8) & 0xFF); /* little-endian */
  header[1] = (char)((HEADER - 8) >> 8);
  return result_of(cli, kf_output_write_at(cli->ctx, out->file, 0, header, HEADER));
}

static int copy_scores(cli_run *cli, const ranges_out *out) {
  char bytes[1 << 16];
  uint64_t at = rows_at(out) + 8 * out->answers, all = 8 * out->answers;
  for (uint64_t done = 0; done < all;) {
    size_t most = all - done < sizeof bytes ? (size_t)(all - done) : sizeof bytes;
    ssize_t got = pread(out->scores, bytes, most, (off_t)done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail_with(cli, EXIT_IO, "%s: scores cannot be read back: %s", cli->args.output,
                       got < 0 ? strerror(errno) : "some are missing");
    TRY(result_of(cli, kf_output_write_at(cli->ctx, out->file, at + done, bytes, (uint64_t)got)));
    done += (uint64_t)got;
  }
  return EXIT_OK;
}

int ranges_out_commit(cli_run *cli, ranges_out *out) {
  TRY(put_none(cli, out, out->n));
  TRY(write_ends(cli, out));
  TRY(put_header(cli, out));
  TRY(copy_scores(cli, out));
  kf_output *file = out->file;
  out->file = NULL; /* freed by the commit in any case */
  return result_of(cli, kf_output_commit(cli->ctx, file));
}

void ranges_out_abort(ranges_out *out) {
  kf_output_free(out->file);
  if (out->scores >= 0) close(out->scores);
}
