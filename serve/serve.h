/* serve.h - the server, as the command line starts it (docs/server.md).
 *
 * A guest of the public headers: what it answers is what the library's calls give. It runs until SIGTERM or SIGINT;
 * SIGHUP loads the files anew. Its handlers of these stay. */
#ifndef SERVE_H
#define SERVE_H

#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"

typedef struct sv_options {
  const char *model;   /* NULL: the demo */
  const char *gallery; /* NULL: none, or made of `rows` */
  const char *rows; /* a data set: the rows of the gallery as the encoder made them; NULL: none */
  const char *encoder; /* a model folder; NULL: none */
  const char *images;  /* the folder that ids of rows are paths in; NULL: none */
  const char *journal; /* a folder for added classes; NULL: MODEL.journal */
  const char *token_file;
  const char *host; /* NULL: 127.0.0.1 */
  uint16_t port;    /* 0: any that is free */
  const char *const *hosts;
  size_t n_hosts; /* names that a Host header may have, besides localhost and addresses */
  kf_precision precision;
  uint64_t
      max_pixels; /* of a picture; 0: 64,000,000 from a client, in `images` as for kf_thumbnail_new */
  unsigned threads; /* 0: one per processor */
  kf_isa isa;
  const char *device, *device_plugin; /* as in kf_ctx_options */
  unsigned connections;               /* at a time */
  unsigned queue;                     /* requests that wait */
  unsigned timeout;  /* seconds that a request may take to arrive, to wait, and to be read */
  uint64_t max_body; /* bytes */
  uint64_t memory;   /* bytes that all requests may hold together */
  int any_encoder;
  int check;           /* 1: stop as soon as it could serve */
  int verbose;         /* 1: a line for each request */
  const char *command; /* how it was started, for the page */
  /* One sentence for people, escaped; from any thread, but never two at a time. */
  void (*log)(void *user, const char *message);
  void *user;
} sv_options;

/* Serves until it is told to stop, and then answers what has arrived. KF_OK, or why it could not begin,
 * with a sentence in message. */
kf_status sv_run(const sv_options *options, char *message, size_t size);

#endif
