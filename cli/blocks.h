/* blocks.h - the rows or pictures that a command is asked about, block by block. */
#ifndef CLI_BLOCKS_H
#define CLI_BLOCKS_H

#include "cli.h"

/* A data set, or pictures and their encoder. */
typedef struct cli_queries {
  kf_data *data; /* NULL: pictures */
  kf_pictures *pictures;
  kf_encoder *encoder;
  uint64_t n; /* bad ones included */
  uint32_t dim;
} cli_queries;
/* Operands `first` and up: data or, with --encoder, pictures. To be freed even if it fails. */
int queries_open(cli_run *cli, size_t first, cli_queries *out);
void queries_free(cli_queries *queries);
/* At most `most` rows; fewer for pictures. */
uint64_t queries_block(const cli_queries *queries, uint64_t most);

/* Rows in hand. Bad ones (--skip-bad) are left out and counted. */
typedef struct row_block {
  kf_reader *reader;
  uint64_t n;              /* rows in hand */
  const float *rows;       /* [n][D] */
  const uint64_t *numbers; /* [n] number of each row in the data set, or of its picture */
  uint64_t n_bad;          /* so far */
} row_block;
int block_make(cli_run *cli, row_block *block, const cli_queries *from, uint64_t room);
int block_read(cli_run *cli,
               row_block *block); /* as many as there is room for, or all that are left */
void block_free(row_block *block);
/* The path of the picture of row i in hand; NULL for rows of a data set. */
const char *block_name(const row_block *block, uint64_t i);

#endif
