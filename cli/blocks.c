/* blocks.c - the rows of a data set, a block at a time, with the bad ones sorted out. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int block_make(cli_run *cli, row_block *b, const kf_data *data, uint64_t room) {
  memset(b, 0, sizeof *b);
  b->data = data;
  b->rows = calloc(room, kf_data_dim(data) * sizeof *b->rows);
  b->labels = calloc(room, sizeof *b->labels);
  b->numbers = calloc(room, sizeof *b->numbers);
  return b->rows && b->labels && b->numbers ? EXIT_OK : fail(cli, KF_ERR_MEM);
}

int block_read(cli_run *cli, row_block *b, uint64_t first, uint64_t n) {
  size_t dim = kf_data_dim(b->data);
  kf_status status = kf_data_get(cli->ctx, b->data, first, n, b->rows, b->labels);
  if (status != KF_OK) return fail(cli, status);
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
}
