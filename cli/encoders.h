/* encoders.h - encoders and pictures as the options name them, and queries: rows or pictures. */
#ifndef CLI_ENCODERS_H
#define CLI_ENCODERS_H

#include "cli.h"

/* Which towers a command needs; TOWER_BOTH: the text tower if there is one. */
typedef enum tower_use { TOWER_IMAGES, TOWER_TEXT, TOWER_BOTH } tower_use;
int load_encoder(cli_run *cli, const char *folder, tower_use use, kf_encoder **out);

int open_pictures(cli_run *cli, size_t first,
                  kf_pictures **out); /* operands `first` and up, or --list */
kf_embed_options embed_options_of(const cli_args *args);
/* Embeds pictures to a data set, resuming an earlier run, and says so. */
int embed_pictures(cli_run *cli, const kf_encoder *encoder, const kf_pictures *pictures,
                   const char *path);
/* Says how many pictures an earlier run had done, and how many were left out. */
void say_pictures(cli_run *cli, const kf_embed_report *report, const char *path);
/* After a run that was stopped: says whether finished shards of the data set at `path` are kept. */
void say_kept(cli_run *cli, const char *path);

/* What a command is asked about: a data set, or an encoder and pictures or texts. */
typedef struct cli_queries {
  kf_data *data; /* NULL: there is an encoder */
  kf_pictures *pictures;
  const char *const *texts; /* [n] */
  kf_encoder *encoder;
  uint64_t n; /* bad ones included */
  uint32_t dim;
  kf_reader *reader; /* from queries_start on */
  int labelled;      /* set before queries_open: labels of a data set are wanted */
} cli_queries;
/* Operands `first` and up: data or, with --encoder, pictures. */
int queries_open(cli_run *cli, size_t first, cli_queries *out);
/* Makes the reader of blocks of at most *room queries, which becomes what is possible. */
int queries_start(cli_run *cli, cli_queries *queries, uint64_t *room);

#endif
