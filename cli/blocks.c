/* blocks.c - the rows that a command is asked about, a block at a time, with the bad ones sorted out. */
#include "blocks.h"
#include "encoders.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

/* Pictures that are read and embedded together: enough for all threads, and a second or so. */
enum { PICTURES = 256 };

/* --- where they come from --------------------------------------------------------------------- */

int queries_open(cli_run *cli, size_t first, cli_queries *out) {
  const cli_args *a = &cli->args;
  int result;
  if (!a->encoder.folder) {
    if (a->encoder.precision || a->encoder.max_pixels.given)
      return fail_usage(cli, "--%s needs --encoder MODEL-DIR",
                        a->encoder.precision ? "precision" : "max-pixels");
    result = open_data(cli, first, LABELS_IGNORED, &out->data);
    if (result != EXIT_OK) return result;
    out->n = kf_data_rows(out->data);
    out->dim = kf_data_dim(out->data);
    return EXIT_OK;
  }
  if (a->data.tensor) return fail_usage(cli, "--tensor has no meaning with --encoder");
  result = open_pictures(cli, first, &out->pictures);
  if (result == EXIT_OK) result = load_encoder(cli, a->encoder.folder, TOWER_IMAGES, &out->encoder);
  if (result != EXIT_OK) return result;
  out->n = kf_pictures_count(out->pictures);
  out->dim = kf_encoder_dim(out->encoder);
  return EXIT_OK;
}

void queries_free(cli_queries *queries) {
  kf_data_free(queries->data);
  kf_pictures_free(queries->pictures);
  kf_encoder_free(queries->encoder);
}

uint64_t queries_block(const cli_queries *queries, uint64_t most) {
  return queries->pictures && most > PICTURES ? PICTURES : most;
}

/* --- blocks ----------------------------------------------------------------------------------- */

int block_make(cli_run *cli, row_block *b, const cli_queries *from, uint64_t room) {
  memset(b, 0, sizeof *b);
  b->from = from;
  b->rows = calloc(room, from->dim * sizeof *b->rows);
  b->labels = calloc(room, sizeof *b->labels);
  b->numbers = calloc(room, sizeof *b->numbers);
  b->paths = calloc(room, sizeof *b->paths);
  b->status = calloc(room, sizeof *b->status);
  return b->rows && b->labels && b->numbers && b->paths && b->status ? EXIT_OK
                                                                     : fail(cli, KF_ERR_MEM);
}

static int is_zero(const float *row, size_t dim) {
  while (dim > 0 && row[dim - 1] == 0) dim--;
  return dim == 0;
}

/* A zero row has no direction; here, where pictures have names, it is told which one it is of. */
static int read_pictures(cli_run *cli, row_block *b, uint64_t first, uint64_t n) {
  const cli_queries *q = b->from;
  for (uint64_t i = 0; i < n; i++) b->paths[i] = kf_pictures_path(q->pictures, first + i);
  kf_status status = kf_encode_images(cli->ctx, q->encoder, b->paths, n, b->rows,
                                      cli->args.data.skip_bad ? b->status : NULL);
  if (status == KF_ERR_DATA && !cli->args.data.skip_bad)
    return fail_with(cli, EXIT_BAD_DATA, "%s (such pictures can be skipped: --skip-bad)",
                     kf_errmsg(cli->ctx));
  if (status != KF_OK) return fail(cli, status);
  for (uint64_t i = 0; i < n; i++) {
    b->labels[i] = b->status[i] == KF_OK ? KF_LABEL_NONE : KF_LABEL_BAD;
    if (b->status[i] != KF_OK || !is_zero(b->rows + i * q->dim, q->dim)) continue;
    if (!cli->args.data.skip_bad)
      return fail_with(cli, EXIT_BAD_DATA,
                       "%s: the embedding is zero (such pictures can be skipped: --skip-bad)",
                       b->paths[i]);
    say(cli, "%s: the embedding is zero", b->paths[i]);
    b->labels[i] = KF_LABEL_BAD;
  }
  return EXIT_OK;
}

static int read_rows(cli_run *cli, row_block *b, uint64_t first, uint64_t n) {
  kf_status status = kf_data_get(cli->ctx, b->from->data, first, n, b->rows, b->labels);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

int block_read(cli_run *cli, row_block *b, uint64_t first, uint64_t n) {
  size_t dim = b->from->dim;
  int result = b->from->pictures ? read_pictures(cli, b, first, n) : read_rows(cli, b, first, n);
  if (result != EXIT_OK) return result;
  b->n = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (b->labels[i] == KF_LABEL_BAD) continue;
    if (b->n < i) memmove(b->rows + b->n * dim, b->rows + i * dim, dim * sizeof *b->rows);
    b->numbers[b->n++] = first + i;
  }
  b->n_bad += n - b->n;
  return EXIT_OK;
}

void block_free(row_block *b) {
  free(b->rows);
  free(b->labels);
  free(b->numbers);
  free(b->paths);
  free(b->status);
}

const char *block_name(const row_block *b, uint64_t i) {
  return b->from->pictures ? kf_pictures_id(b->from->pictures, b->numbers[i]) : NULL;
}
