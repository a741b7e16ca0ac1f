/* ranges_out.h - all rows within a limit of each query, to .safetensors, as sparse matrices lie in memory. */
#ifndef CLI_RANGES_OUT_H
#define CLI_RANGES_OUT_H

#include "cli.h"

enum { RANGES_AT_ONCE = 512 };

typedef struct ranges_out {
  kf_output *file;
  int scores;       /* a file without a name; -1: none */
  uint64_t n;       /* queries */
  uint64_t queries; /* that have come */
  uint64_t answers; /* of these */
  double limit;
  const char *metric;
  int64_t ends[RANGES_AT_ONCE]; /* that wait to be written */
  uint64_t waiting;
} ranges_out;

int ranges_out_open(cli_run *cli, ranges_out *out, const char *path, uint64_t n, double limit,
                    const char *metric);
/* The answers of some queries; numbers: of each, rising (NULL: those that follow). Queries that are left
 * out have no answers. */
int ranges_out_put(cli_run *cli, ranges_out *out, const kf_ranges *ranges, const uint64_t *numbers,
                   uint64_t before);
int ranges_out_commit(cli_run *cli, ranges_out *out);
void ranges_out_abort(ranges_out *out);

#endif
