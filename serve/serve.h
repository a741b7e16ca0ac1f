/* serve.h - the server, as the command line starts it (docs/server.md).
 *
 * It answers with what the library's public functions return. It runs until SIGTERM or SIGINT;
 * SIGHUP reloads the files. Its signal handlers stay installed. */
#ifndef SERVE_H
#define SERVE_H

#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"

typedef struct sv_options {
  const char *model;   /* NULL: the demo */
  const char *gallery; /* NULL: made from `rows`, if given */
  const char *rows;    /* data set with the raw rows of the gallery; NULL: none */
  const char *encoder; /* a model folder; NULL: none */
  const char *names;   /* what to call classes, for kf_class_names_load; NULL: none */
  const char *images;  /* folder: ids of rows are paths in it; NULL: none */
  const char *journal; /* folder for added classes; NULL: MODEL.journal */
  const char *token_file;
  const char *host;         /* NULL: 127.0.0.1 */
  uint16_t port;            /* 0: any free one */
  const char *const *hosts; /* [n_hosts] accepted besides localhost and addresses */
  size_t n_hosts;
  kf_precision precision;
  uint64_t max_pixels; /* 0: 64,000,000 from clients; in `images`, the library's default */
  unsigned threads;    /* 0: one per processor */
  kf_isa isa;
  const char *device, *device_plugin; /* as in kf_ctx_options */
  unsigned connections;               /* at most this many at a time */
  unsigned queue;                     /* at most this many waiting requests */
  unsigned
      timeout; /* seconds for a request to arrive, and to wait; sending may take four times that */
  uint64_t max_body; /* bytes */
  uint64_t memory;   /* bytes for all requests together */
  int any_encoder;
  int check;   /* 1: stop when ready to serve */
  int verbose; /* 1: log each request */
  /* A sentence for the log, with foreign text not yet escaped. Called from any thread, but never
   * two at a time. */
  void (*log)(void *user, const char *message);
  void *user;
} sv_options;

/* Serves until it is told to stop, then answers the requests that have arrived. Fails, with a
 * sentence in message, if it cannot start. */
kf_status sv_run(const sv_options *options, char *message, size_t size);

#endif
