/* blocks.c - the rows that a command is asked about, data or pictures, a block at a time. */
#include "blocks.h"
#include "encoders.h"
#include "inputs.h"

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
  if (a->data.tensor) return fail_usage(cli, "--tensor cannot be used with --encoder");
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
  return queries->pictures && most > KF_PICTURE_BLOCK ? KF_PICTURE_BLOCK : most;
}

int block_make(cli_run *cli, row_block *b, const cli_queries *from, uint64_t room) {
  kf_reader_options options = {.block = room, .skip_bad = cli->args.data.skip_bad};
  *b = (row_block){0};
  kf_status status =
      from->pictures
          ? kf_reader_open_pictures(cli->ctx, from->encoder, from->pictures, &options, &b->reader)
          : kf_reader_open_data(cli->ctx, from->data, &options, &b->reader);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

int block_read(cli_run *cli, row_block *b) {
  kf_reader_block block;
  kf_status status = kf_reader_next(cli->ctx, b->reader, &block);
  if (status != KF_OK) return fail(cli, status);
  b->n = block.n;
  b->rows = block.rows;
  b->numbers = block.numbers;
  b->n_bad = kf_reader_bad(b->reader);
  return EXIT_OK;
}

void block_free(row_block *b) { kf_reader_free(b->reader); }

const char *block_name(const row_block *b, uint64_t i) {
  return kf_reader_id(b->reader, b->numbers[i]);
}
