/* array_out.h - row numbers and scores, [n, k] each, to .npy or .safetensors. */
#ifndef CLI_ARRAY_OUT_H
#define CLI_ARRAY_OUT_H

#include "cli.h"

typedef struct array_out {
  kf_output *files[2]; /* .npy: row numbers, scores; .safetensors: both in the first */
  uint64_t at[2];      /* where the two arrays begin */
  char *scores_path;   /* .npy only */
  uint32_t k;
} array_out;

int array_out_open(cli_run *cli, array_out *out, const char *path, uint64_t n, uint32_t k,
                   const char *metric);
/* Answers [n][k] of the queries from `first` on. */
int array_out_put(cli_run *cli, array_out *out, uint64_t first, uint64_t n, const int64_t *rows,
                  const double *scores);
int array_out_commit(cli_run *cli, array_out *out); /* of both files */
void array_out_abort(array_out *out);               /* after a commit it only frees memory */
/* OUT_scores.npy for OUT.npy, to be freed; NULL: out of memory. */
char *scores_path(const char *path);

#endif
