/* encoders.h - pictures and words to rows. */
#ifndef CLI_ENCODERS_H
#define CLI_ENCODERS_H

#include "prompting.h"

/* Which towers a command needs; TOWER_BOTH: the text tower if there is one. */
typedef enum tower_use { TOWER_IMAGES, TOWER_TEXT, TOWER_BOTH } tower_use;
int load_encoder(cli_run *cli, const char *folder, tower_use use, kf_encoder **out);

/* Text embeddings and their classes, as a data set. */
typedef struct encoded_text {
  uint64_t n;
  char *bytes; /* the texts, each with its NUL; NULL: they are the caller's */
  const char **texts;
  int32_t *labels;    /* NULL: no classes */
  const char **names; /* of classes */
  float *rows;
  kf_data *data;
} encoded_text;
/* Embeds every prompt of a set. To be freed even if it fails. */
int encode_prompts(cli_run *cli, const kf_encoder *encoder, const prompt_set *set,
                   encoded_text *out);
int encode_lines(cli_run *cli, const kf_encoder *encoder, const line_list *lines,
                 encoded_text *out);
void encoded_text_free(encoded_text *text);

/* Operands `first` and up, or --list. */
int open_pictures(cli_run *cli, size_t first, kf_pictures **out);
/* Embeds pictures to a data set, resuming an earlier run, and says so. */
int embed_pictures(cli_run *cli, const kf_encoder *encoder, const kf_pictures *pictures,
                   const char *path);

#endif
