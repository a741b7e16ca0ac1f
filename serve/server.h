/* server.h - what the files of the server share: the server, the state it answers from,
 * requests. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "memory.h"
#include "serve.h"
#include "text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define SV_COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum {
  SV_MAX_ROWS = 4096,      /* of one request */
  SV_MAX_TOP = 1000,       /* classes per row */
  SV_MAX_VALUES = 1 << 20, /* classes or neighbours, all rows of a request together */
  SV_MAX_PICTURES = 256,   /* of one request, and of one batch of the encoder */
  SV_MAX_TEXTS = 1024,
  SV_MAX_TEXT = 65536, /* bytes of a text */
  SV_MAX_NAME = 1024,  /* bytes of a class name */
  SV_MAX_ADDED = 10000,
  SV_MAP_POINTS = 20000
};

double sv_now(void); /* seconds, monotonic */

/* --- state.c: what is served; immutable once it is in place ----------------------------------- */

/* The rows to search, in both spaces. Reference counted, as are bases and worlds. */
typedef struct sv_shelf {
  atomic_uint users;
  kf_gallery *koofu, *raw; /* either may be NULL */
  kf_data *rows;           /* as the encoder made them; NULL: not available */
  kf_data *mapped;         /* the rows in the file of `koofu`; NULL: it has no file */
  const kf_gallery *any;   /* koofu, or raw if that is NULL: for labels and ids */
  uint64_t n;
  char **ids; /* [n] those of `rows`, if the gallery has none; NULL: not needed */
} sv_shelf;

typedef struct sv_base {
  atomic_uint users;
  kf_model *model;       /* as in the file */
  int64_t written;       /* when, in seconds since 1970; 0: the demo */
  kf_class_names *names; /* what to call its classes; NULL: by their labels */
} sv_base;

typedef struct sv_added {
  char *name;
  uint64_t rows;
  uint64_t number; /* of its file in the journal */
  bool text;       /* from its name alone */
} sv_added;

enum { SV_CLASSIFIERS = 5 };
typedef struct sv_world {
  atomic_uint users;
  sv_base *base;
  kf_model *model; /* that of the base, or a copy with the added classes */
  sv_shelf *shelf; /* NULL: no gallery */
  sv_added *added; /* [n_added], by number */
  size_t n_added;
  bool probabilities; /* the model has a temperature */
  uint32_t answers;   /* classes that take part */
  pthread_mutex_t lock;
  /* By the number of classes they find; created on first use, under the lock. */
  _Atomic(kf_classifier *) classifiers[SV_CLASSIFIERS];
  struct sv_map_text *maps; /* answers of /v1/map so far */
} sv_world;

struct sv_server;
typedef struct sv_server sv_server;

/* What changes when a file or folder does. */
typedef struct sv_stamp {
  uint64_t device, inode, size;
  int64_t seconds, nanoseconds;
} sv_stamp;
/* Of the model, the gallery and its changes, and the rows and their changes (they may be a gallery
 * too). */
typedef struct sv_stamps {
  sv_stamp of[6];
} sv_stamps;

sv_world *sv_world_get(sv_server *server); /* takes a reference */
void sv_world_put(sv_world *world);        /* drops it */
/* A classifier that finds at least `top` classes, or all that take part; *finds: how many. Owned by
 * the world. */
kf_status sv_world_classifier(sv_world *world, kf_ctx *ctx, uint32_t top, const kf_classifier **out,
                              uint32_t *finds);
/* Loads the files and serves them from then on. On failure what was served before stays. */
kf_status sv_state_load(sv_server *server, kf_ctx *ctx, char *message, size_t size);
/* Whether a file has changed since it was loaded; *now: the stamps of the moment. */
bool sv_state_changed(const sv_server *server, sv_stamps *now);
void sv_state_free(sv_server *server);
const char *sv_shelf_id(const sv_shelf *shelf, uint64_t row); /* NULL: none */
/* Adds "display_name", what class k is called, if the server was given names. */
void sv_put_name(sv_text *text, const sv_world *world, uint32_t k);
/* The number of the class with this name; -1: none. */
int64_t sv_world_class(const sv_world *world, const char *name);
/* NULL: no added class has this name. */
const sv_added *sv_world_added(const sv_world *world, const char *name);
/* Adds a class with rows [n][dim]: it is on disk, and served, when the call returns. */
kf_status sv_state_add(sv_server *server, kf_ctx *ctx, const char *name, const float *rows,
                       uint64_t n, uint32_t dim, bool text, char *message, size_t size);
kf_status sv_state_remove(sv_server *server, kf_ctx *ctx, const char *name, char *message,
                          size_t size);
/* Writes the message of a failed call on ctx; returns status. */
kf_status sv_say(kf_ctx *ctx, kf_status status, char *message, size_t size);
/* demo.c */
kf_status sv_demo_model(kf_ctx *ctx, kf_model **out);
kf_status sv_demo_rows(kf_ctx *ctx, kf_data **out);

/* --- requests --------------------------------------------------------------------------------- */

typedef enum sv_lane {
  SV_HERE = -1,   /* no lane: on the thread that has the request */
  SV_ROWS = 0,    /* searches, many rows, large bodies */
  SV_ENCODER = 1, /* pictures and words, in batches */
  SV_CHANGES = 2, /* classes added and removed */
  SV_FILES = 3,   /* rows and pictures of the gallery, read from disk */
  SV_LANES = 4
} sv_lane;

typedef enum sv_kind { SV_NOTHING, SV_ROW_VALUES, SV_ROW_NUMBERS, SV_PICTURES, SV_TEXTS } sv_kind;

/* What a request asks about. */
typedef struct sv_input {
  sv_kind kind;
  uint64_t n;
  float *rows;              /* [n][dim]; of pictures and texts, once they are encoded */
  uint64_t *numbers;        /* [n] rows of the gallery */
  kf_image_bytes *pictures; /* [n] */
  const char **texts;       /* [n]; NULL in a mixed list: a picture */
  const char **files; /* [n_files] names of uploaded files: one for each picture, or of rows */
  uint64_t n_files;
  uint32_t top, k;
  bool raw;            /* the space: the original one */
  bool space_given;    /* the request named it */
  char *name;          /* of a new class */
  bool by_name;        /* the new class is made from its name */
  bool base64;         /* send embeddings as base64 */
  uint32_t dimensions; /* of embeddings; 0: all */
  struct infer *infer; /* for /v2 (kserve.c) */
} sv_input;

typedef enum sv_stage { SV_PARSE, SV_FETCH, SV_EMBED, SV_WORK, SV_DONE } sv_stage;

struct MHD_Connection;
struct sv_peer;
struct sv_route;

typedef struct sv_request {
  sv_server *server;
  struct MHD_Connection *connection;
  struct sv_peer *peer;
  const struct sv_route *route;
  struct sv_request *next; /* in a lane */
  sv_arena arena;
  char method[16];
  const char *path; /* percent-decoded */
  const char *rest; /* of the path, after the prefix of the route */
  char *body;       /* [n_body + 1], with a NUL; NULL if it is empty */
  size_t n_body, room;
  uint64_t seen; /* bytes of the body received, kept or not */
  bool too_large, no_memory, dispatched, answered;
  bool early; /* refused before the body was read: the connection is closed */
  sv_world *world;
  sv_input in;
  sv_stage stage;
  double begun, queued;
  /* The answer. */
  unsigned status;
  const char *type;
  sv_text out;
  const void *constant; /* sent instead of `out`, not copied; [n_constant] */
  size_t n_constant;
  void *owned; /* what `constant` points into; freed with `release` after the answer; or NULL */
  void (*release)(void *owned);
  const char *etag, *cache, *policy;
  char allow[64];     /* the methods of the path, if it has no route for this one */
  unsigned json_head; /* KServe: bytes of JSON before binary tensors; 0: all JSON */
} sv_request;

/* Answers with an error: one sentence, and the type of error that the status implies. False, so
 * that a parser can return it. */
bool sv_fail(sv_request *r, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the message of a failed call on ctx. */
bool sv_fail_status(sv_request *r, kf_ctx *ctx, kf_status status);
/* The same for memory: 429. */
bool sv_fail_memory(sv_request *r);
/* Answers with what is in `out`, or 429 if memory ran out while it was written. */
void sv_answer(sv_request *r, unsigned status, const char *type);
/* Closes the object in `out` and answers with it. */
void sv_answer_json(sv_request *r, unsigned status);
/* An argument of the URL from low to high; *value stays if it is absent. False: answered. */
bool sv_arg_number(sv_request *r, const char *name, uint64_t low, uint64_t high, uint64_t *value);
const char *sv_arg(sv_request *r, const char *name);    /* of the URL; NULL: absent */
const char *sv_header(sv_request *r, const char *name); /* NULL: absent */

/* --- routes.c --------------------------------------------------------------------------------- */

typedef struct sv_route {
  const char *method;
  const char *path;                          /* '*' at the end matches any rest */
  const char *name;                          /* in metrics */
  bool open;                                 /* needs no token */
  sv_lane lane;                              /* for `work` */
  bool (*parse)(sv_request *r, kf_ctx *ctx); /* NULL: nothing to parse; false: answered */
  void (*work)(sv_request *r, kf_ctx *ctx);  /* answers */
  const char *args; /* parameters it takes, each with a space behind it; NULL: any */
} sv_route;

extern const sv_route sv_routes[];
extern const size_t sv_n_routes;
/* The route of a request, or NULL; then `allowed` lists the methods of the path, "" if there is
 * none. */
const sv_route *sv_route_of(const char *method, const char *path, char *allowed, size_t size);

/* The lane for the next step of a request. */
sv_lane sv_lane_of(const sv_request *r);
/* Takes a request through its steps as long as they belong to this lane. */
void sv_advance(sv_request *r, kf_ctx *ctx, sv_lane lane);

/* --- queue.c ---------------------------------------------------------------------------------- */

typedef struct sv_queue sv_queue;
sv_queue *sv_queue_new(sv_server *server);
bool sv_queue_start(sv_queue *queue);               /* false: no memory, or no threads */
bool sv_queue_push(sv_queue *queue, sv_request *r); /* false: the queue is full */
void sv_queue_stop(sv_queue *queue);                /* after finishing what is in it */
void sv_queue_free(sv_queue *queue);
unsigned sv_queue_length(const sv_queue *queue);
/* Encodes the pictures and texts of requests linked by `next`. Those that fail are answered. */
void sv_encode(sv_request *first, kf_ctx *ctx);
/* Answers searches linked by `next` with one call; those it leaves unanswered run one by one. */
void sv_search_together(sv_request *first, kf_ctx *ctx);
/* Whether two requests can share such a call. */
bool sv_same_search(const sv_request *a, const sv_request *b);

/* --- answers ---------------------------------------------------------------------------------- */

/* body.c */
bool sv_parse_classify(sv_request *r, kf_ctx *ctx);
bool sv_parse_search(sv_request *r, kf_ctx *ctx);
bool sv_parse_embeddings(sv_request *r, kf_ctx *ctx);
bool sv_parse_class(sv_request *r, kf_ctx *ctx);
bool sv_parse_space(sv_request *r); /* ?space= */
/* Reads the rows of `numbers`. False: answered. */
bool sv_fetch_rows(sv_request *r, kf_ctx *ctx);
/* answers.c */
void sv_work_classify(sv_request *r, kf_ctx *ctx);
void sv_work_search(sv_request *r, kf_ctx *ctx);
void sv_work_embeddings(sv_request *r, kf_ctx *ctx);
/* command.c: writes the member "command". A maker returns false if no command does the same. */
void sv_put_command(sv_request *r, bool (*make)(sv_request *r, sv_text *t));
bool sv_classify_command(sv_request *r, sv_text *t);
bool sv_search_command(sv_request *r, sv_text *t);
bool sv_map_command(sv_request *r, sv_text *t);
bool sv_classes_command(sv_request *r, sv_text *t);
bool sv_merge_command(sv_request *r, sv_text *t); /* of the added classes with the model */
/* describe.c */
void sv_work_info(sv_request *r, kf_ctx *ctx);
void sv_work_models(sv_request *r, kf_ctx *ctx);
void sv_work_classes(sv_request *r, kf_ctx *ctx);
void sv_work_add_class(sv_request *r, kf_ctx *ctx);
void sv_work_remove_class(sv_request *r, kf_ctx *ctx);
/* images.c */
void sv_work_image(sv_request *r, kf_ctx *ctx);
bool sv_has_images(const sv_server *server);
/* map.c */
void sv_work_map(sv_request *r, kf_ctx *ctx);
void sv_maps_free(struct sv_map_text *maps);
/* kserve.c */
bool sv_parse_infer(sv_request *r, kf_ctx *ctx);
void sv_work_infer(sv_request *r, kf_ctx *ctx);
void sv_work_v2(sv_request *r, kf_ctx *ctx);
/* metrics.c */
void sv_work_metrics(sv_request *r, kf_ctx *ctx);
void sv_work_health(sv_request *r, kf_ctx *ctx);
/* files.c */
void sv_work_file(sv_request *r, kf_ctx *ctx);
bool sv_is_file(const char *path);

/* --- metrics.c -------------------------------------------------------------------------------- */

enum { SV_BUCKETS = 12, SV_ROUTES = 40 };
typedef struct sv_metrics {
  struct sv_route_metrics {
    atomic_ulong by_status[6]; /* 1xx to 5xx */
    atomic_ulong buckets[SV_BUCKETS + 1];
    atomic_ulong microseconds;
  } routes[SV_ROUTES + 1]; /* the last one: no route */
  atomic_ulong rows, pictures, texts, picture_batches, searches, search_batches;
  atomic_ulong rejected; /* 429 */
  atomic_ulong reloads, failed_reloads, cut_off;
} sv_metrics;
void sv_count(sv_metrics *metrics, const sv_request *r);

/* --- framing.c -------------------------------------------------------------------------------- */

/* Whether the address of a request, before it is decoded, has no space, control character or %00,
 * which could end it early. */
bool sv_target_is_plain(const char *target);
/* Why the head of a request is ambiguous; NULL: it is not. method, target and version are the
 * pointers that libmicrohttpd passes to the first call for the request; n_target: the length of
 * target before it was decoded. */
const char *sv_head_problem(struct MHD_Connection *connection, const char *method,
                            const char *target, size_t n_target, const char *version);

/* --- http.c ----------------------------------------------------------------------------------- */

typedef struct sv_http sv_http;
kf_status sv_http_start(sv_server *server, char *message, size_t size);
unsigned sv_http_port(const sv_server *server);
/* Resumes the connection of a request that a lane has answered. */
void sv_http_resume(sv_request *r);
/* Closes connections that take too long; to be called once a second. */
void sv_http_watch(sv_server *server);
unsigned sv_http_busy(sv_server *server); /* requests begun and not yet answered */
unsigned sv_http_connections(const sv_server *server);
void sv_http_stop(sv_server *server);

/* --- the server ------------------------------------------------------------------------------- */

struct sv_server {
  sv_options options;
  char *token; /* NULL: not required */
  kf_encoder *encoder;
  bool demo;
  atomic_int text_mean_known;
  double *text_mean; /* [dim of the encoder]; written by the encoder's lane, once */
  sv_budget budget;
  sv_metrics metrics;
  pthread_mutex_t world_lock;
  sv_world *world;
  pthread_mutex_t change_lock; /* held while another world is built and put in place */
  sv_stamps stamps;            /* of the files as they were loaded */
  struct sv_journal *journal;
  int images; /* descriptor of the folder; -1: none */
  sv_queue *queue;
  sv_http *http;
  atomic_bool stopping;
  double begun;
  pthread_mutex_t log_lock;
};

/* A log line. The receiver escapes foreign text in it. */
void sv_log(sv_server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A context for one thread of the server; notes: its notes are logged. NULL: out of memory. */
kf_ctx *sv_context(sv_server *server, unsigned threads, bool notes);
const char *sv_base_name(const char *path);
/* The file name of the model without .safetensors; returns `name`. */
const char *sv_model_name(const sv_server *server, char *name, size_t size);
/* These set errno on failure. */
int sv_open_folder(const char *path);                          /* -1: failed */
bool sv_read_all(int fd, char *to, size_t room, size_t *n);    /* at most `room` bytes */
ssize_t sv_read_file(const char *path, char *to, size_t room); /* -1: failed */

#endif
