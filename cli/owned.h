/* owned.h - what a run loads or makes belongs to it, and is freed when it ends. */
#ifndef CLI_OWNED_H
#define CLI_OWNED_H

#include "cli.h"

/* Hands an object to the run. Returns the exit status. own_data and so on take what a call of the
 * library has made, and report its failure. */
int own(cli_run *cli, void *object, void (*release)(void *object));
#define OWNED(TYPE)                                                                                \
  static inline void release_##TYPE(void *object) { kf_##TYPE##_free(object); }                    \
  static inline int own_##TYPE(cli_run *cli, kf_status status, kf_##TYPE **object) {               \
    return status == KF_OK ? own(cli, *object, release_##TYPE) : fail(cli, status);                \
  }
OWNED(analysis)
OWNED(calibration)
OWNED(class_set)
OWNED(classifier)
OWNED(data)
OWNED(encoder)
OWNED(filter)
OWNED(gallery)
OWNED(lambda_choice)
OWNED(model)
OWNED(pictures)
OWNED(prompts)
OWNED(reader)
OWNED(shots)
OWNED(stats)
OWNED(sweep)
OWNED(text)
OWNED(truth)
OWNED(verdicts)
#undef OWNED

void *own_memory(cli_run *cli, size_t n, size_t size); /* zeroed; NULL: out of memory */
/* Formatted text; NULL: out of memory. */
const char *own_format(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);
void free_owned(cli_run *cli); /* the last first */

#endif
