/* server.h - what the files of the server share: the server, the state it answers from, a request. */
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
  SV_MAX_TOP = 1000,       /* classes of an answer */
  SV_MAX_VALUES = 1 << 20, /* classes or neighbours of all answers of a request together */
  SV_MAX_PICTURES = 256,   /* of one request, and that are encoded together */
  SV_MAX_TEXTS = 1024,
  SV_MAX_TEXT = 65536, /* bytes of a text */
  SV_MAX_NAME = 1024,  /* bytes of a class name */
  SV_MAX_ADDED = 10000,
  SV_MAP_POINTS = 20000
};

double sv_now(void); /* seconds, never going back */

/* --- state.c: what is served, never changed once it is there ------------------------------------ */

/* The rows that are searched, in both spaces. */
typedef struct sv_shelf {
  atomic_uint users;
  kf_gallery *koofu, *raw; /* either may be NULL */
  kf_data *rows;           /* as the encoder made them; NULL: not known */
  kf_data *mapped;         /* the rows of `koofu` in its file; NULL: not needed */
  const kf_gallery *any;   /* koofu, or else raw: for labels and ids */
  uint64_t n;
  char **ids; /* [n], if the gallery has none; NULL: no ids */
} sv_shelf;

typedef struct sv_base {
  atomic_uint users;
  kf_model *model; /* as in its file */
} sv_base;

typedef struct sv_added {
  char *name;
  uint64_t rows;
  uint64_t number; /* of its file in the journal */
  bool text;       /* by its name alone */
} sv_added;

enum { SV_CLASSIFIERS = 5 };
typedef struct sv_world {
  atomic_uint users;
  sv_base *base;
  kf_model *model; /* that of base, or with added classes */
  sv_shelf *shelf; /* NULL: no gallery */
  sv_added *added; /* [n_added] in the order of their numbers */
  size_t n_added;
  bool probabilities; /* the model has a temperature */
  uint32_t answers;   /* classes that take part */
  pthread_mutex_t lock;
  _Atomic(kf_classifier *)
      classifiers[SV_CLASSIFIERS]; /* by how many classes they find; made when needed */
  struct sv_map_text *maps;        /* that were asked for */
} sv_world;

struct sv_server;
typedef struct sv_server sv_server;

typedef struct sv_stamp { /* of a file or folder */
  uint64_t device, number, size;
  int64_t seconds, nanoseconds;
} sv_stamp;
/* Of all that is loaded: the model; the gallery and its changes; the rows and theirs, since they may be a gallery. */
typedef struct sv_stamps {
  sv_stamp of[5];
} sv_stamps;

sv_world *sv_world_get(sv_server *server); /* to be put back */
void sv_world_put(sv_world *world);
/* A classifier that finds at least `top` classes; *finds: how many. */
kf_status sv_world_classifier(sv_world *world, kf_ctx *ctx, uint32_t top, const kf_classifier **out,
                              uint32_t *finds);
/* Loads the files. The first time, and whenever they have changed. */
kf_status sv_state_load(sv_server *server, kf_ctx *ctx, char *message, size_t size);
/* Whether a file is not the one that was loaded; `now`: how they are. */
bool sv_state_changed(const sv_server *server, sv_stamps *now);
void sv_state_free(sv_server *server);
const char *sv_shelf_id(const sv_shelf *shelf, uint64_t row); /* NULL: none */
/* The class of this name; -1: none. */
int64_t sv_world_class(const sv_world *world, const char *name);
const sv_added *sv_world_added(const sv_world *world,
                               const char *name); /* NULL: not an added one */
/* Adds a class from rows [n][dim], on disk before it returns. The world that has it becomes the one that is
 * served. */
kf_status sv_state_add(sv_server *server, kf_ctx *ctx, const char *name, const float *rows,
                       uint64_t n, uint32_t dim, bool text, char *message, size_t size);
kf_status sv_state_remove(sv_server *server, kf_ctx *ctx, const char *name, char *message,
                          size_t size);
/* demo.c */
kf_status sv_demo_model(kf_ctx *ctx, kf_model **out);
kf_status sv_demo_rows(kf_ctx *ctx, kf_data **out);

/* --- requests ------------------------------------------------------------------------------------ */

typedef enum sv_lane {
  SV_HERE = -1,   /* wherever it is now */
  SV_ROWS = 0,    /* searches, many rows, large bodies */
  SV_ENCODER = 1, /* pictures and words, in batches */
  SV_CHANGES = 2, /* classes that come and go */
  SV_FILES = 3,   /* pictures of rows */
  SV_LANES = 4
} sv_lane;

typedef enum sv_kind { SV_NOTHING, SV_ROW_VALUES, SV_ROW_NUMBERS, SV_PICTURES, SV_TEXTS } sv_kind;

typedef struct sv_picture {
  const void *bytes;
  size_t n;
} sv_picture;

/* What a request asks about. */
typedef struct sv_input {
  sv_kind kind;
  uint64_t n;
  float *rows;          /* [n][dim]; of pictures and texts from the encoder on */
  uint64_t *numbers;    /* [n] of rows of the gallery */
  sv_picture *pictures; /* [n] */
  const char **texts;   /* [n] */
  bool *is_text;        /* [n], for pictures and texts in one list; NULL: all alike */
  uint32_t top, k;
  bool raw;            /* the space */
  bool space;          /* it was named */
  char *name;          /* of a class */
  bool by_name;        /* a class from its name */
  bool base64;         /* of embeddings */
  uint32_t dimensions; /* of embeddings; 0: all */
  struct infer *infer; /* of /v2 (kserve.c) */
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
  const char *rest; /* of the path, after the route's prefix */
  char *body;       /* [n_body + 1], NUL at the end */
  size_t n_body, room;
  uint64_t seen; /* bytes of the body so far, kept or not */
  bool too_large, crowded, dispatched, suspended, answered, early, head;
  sv_world *world;
  sv_input in;
  sv_stage stage;
  double begun, queued;
  /* The answer. */
  unsigned status;
  const char *type;
  sv_text out;
  const void *constant; /* instead of out: bytes that stay; [n_constant] */
  size_t n_constant;
  void *owned; /* the same, to be freed by request_free through `release` */
  void (*release)(void *owned);
  const char *etag, *cache, *policy, *allow;
  unsigned json_head; /* KServe: how much of the answer is JSON, if binary follows; 0: all */
} sv_request;

/* Answers with an error: a sentence, and the type that the status stands for. */
void sv_fail(sv_request *r, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same from a status of the library, whose message names what is wrong with the input. */
void sv_fail_status(sv_request *r, kf_ctx *ctx, kf_status status);
/* The answer is what has been written, or 429 if memory ran out. */
void sv_answer(sv_request *r, unsigned status, const char *type);
bool sv_arg_number(sv_request *r, const char *name, uint64_t low, uint64_t high, uint64_t *value);
const char *sv_arg(sv_request *r, const char *name);    /* of the query; NULL: none */
const char *sv_header(sv_request *r, const char *name); /* NULL: none */

/* --- routes.c ------------------------------------------------------------------------------------ */

typedef struct sv_route {
  const char *method;
  const char *path;                          /* a '*' at the end: any rest */
  const char *name;                          /* in metrics */
  bool open;                                 /* needs no token */
  bool body;                                 /* takes one */
  sv_lane lane;                              /* of `work`; SV_HERE: where the request is */
  bool (*parse)(sv_request *r, kf_ctx *ctx); /* NULL: nothing to parse; false: answered */
  void (*work)(sv_request *r, kf_ctx *ctx);  /* answers */
} sv_route;

extern const sv_route sv_routes[];
extern const size_t sv_n_routes;
/* The route of a request; otherwise NULL, with *allowed the methods that the path has, or "". */
const sv_route *sv_route_of(const char *method, const char *path, char *allowed, size_t size);

/* The lane where the next step of a request is done. */
sv_lane sv_lane_of(const sv_request *r);
/* Does steps of a request as long as they belong to this lane. */
void sv_advance(sv_request *r, kf_ctx *ctx, sv_lane lane);

/* --- queue.c ------------------------------------------------------------------------------------- */

typedef struct sv_queue sv_queue;
sv_queue *sv_queue_new(sv_server *server);
/* The lanes' threads. False: they cannot be started. */
bool sv_queue_start(sv_queue *queue);
bool sv_queue_push(sv_queue *queue, sv_request *r); /* false: it is full */
void sv_queue_stop(sv_queue *queue);                /* finishes what is in it */
void sv_queue_free(sv_queue *queue);
unsigned sv_queue_length(const sv_queue *queue);
/* Encodes the pictures and texts of requests linked by next. Those that fail are answered. */
void sv_encode(sv_request *first, kf_ctx *ctx);
/* Searches for requests linked by next that want the same. */
void sv_search_together(sv_request *first, kf_ctx *ctx);
bool sv_same_search(const sv_request *a, const sv_request *b);

/* --- answers ------------------------------------------------------------------------------------- */

/* body.c */
/* Answers that there is no memory for this request; false, for whoever returns it. */
bool sv_memory_out(sv_request *r);
bool sv_parse_classify(sv_request *r, kf_ctx *ctx);
bool sv_parse_search(sv_request *r, kf_ctx *ctx);
bool sv_parse_embeddings(sv_request *r, kf_ctx *ctx);
bool sv_parse_class(sv_request *r, kf_ctx *ctx);
/* Brings the rows of row numbers. False: answered. */
bool sv_fetch_rows(sv_request *r, kf_ctx *ctx);
/* answers.c */
void sv_work_classify(sv_request *r, kf_ctx *ctx);
void sv_work_search(sv_request *r, kf_ctx *ctx);
void sv_work_embeddings(sv_request *r, kf_ctx *ctx);
/* describe.c */
void sv_work_info(sv_request *r, kf_ctx *ctx);
void sv_work_classes(sv_request *r, kf_ctx *ctx);
void sv_work_add_class(sv_request *r, kf_ctx *ctx);
void sv_work_remove_class(sv_request *r, kf_ctx *ctx);
void sv_put_class(sv_request *r, const kf_model *model, uint32_t k, const char *key);
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

/* --- metrics.c ----------------------------------------------------------------------------------- */

enum { SV_BUCKETS = 12, SV_ROUTES = 40 };
typedef struct sv_metrics {
  struct sv_route_metrics {
    atomic_ulong by_status[6]; /* hundreds */
    atomic_ulong buckets[SV_BUCKETS + 1];
    atomic_ulong microseconds;
  } routes[SV_ROUTES + 1]; /* the last: no route */
  atomic_ulong rows, pictures, texts, picture_batches, searches, search_batches;
  atomic_ulong rejected; /* 429 */
  atomic_ulong reloads, failed_reloads, cut_off;
} sv_metrics;
void sv_count(sv_metrics *metrics, const sv_request *r);

/* --- framing.c ----------------------------------------------------------------------------------- */

/* Whether the address in the first line of a request, before it is decoded, has no character that ends it early: no
 * space or control character, and no %00. */
bool sv_target_is_plain(const char *target);
/* Why the head of a request can be read in more than one way; NULL: it cannot. target, [n_target] before it was
 * decoded, and the others are those of libmicrohttpd, in the first call for the request. */
const char *sv_head_problem(struct MHD_Connection *connection, const char *method,
                            const char *target, size_t n_target, const char *version);

/* --- http.c -------------------------------------------------------------------------------------- */

typedef struct sv_http sv_http;
kf_status sv_http_start(sv_server *server, char *message, size_t size);
unsigned sv_http_port(const sv_server *server);
/* A worker has answered: the connection goes on. */
void sv_http_resume(sv_request *r);
void sv_http_watch(sv_server *server); /* once a second: ends connections that take too long */
unsigned
sv_http_busy(sv_server *server); /* requests that have begun to arrive and are not answered */
unsigned sv_http_connections(const sv_server *server);
void sv_http_stop(sv_server *server);

/* --- the server ---------------------------------------------------------------------------------- */

struct sv_server {
  sv_options options;
  char *token; /* NULL: none is needed */
  kf_encoder *encoder;
  bool demo;
  atomic_int text_mean_known;
  double *text_mean; /* [dim] of the encoder; only the encoder's lane writes it */
  sv_budget budget;
  sv_metrics metrics;
  pthread_mutex_t world_lock;
  sv_world *world;
  pthread_mutex_t change_lock; /* of whoever puts another world in its place */
  sv_stamps stamps;            /* when they were loaded */
  struct sv_journal *journal;
  int images; /* folder; -1: none */
  sv_queue *queue;
  sv_http *http;
  atomic_bool stopping;
  double begun;
  pthread_mutex_t log_lock;
};

/* A line for people. Foreign text in it is escaped by the receiver. */
void sv_log(sv_server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A context for a thread of the server, whose notes are logged or not. NULL: there is no memory. */
kf_ctx *sv_context(sv_server *server, unsigned threads, bool notes);
const char *sv_base_name(const char *path);
int sv_open_folder(const char *path); /* -1: errno says why */
/* Up to `room` bytes; false: errno says why. */
bool sv_read_all(int fd, char *to, size_t room, size_t *n);
ssize_t sv_read_file(const char *path, char *to, size_t room); /* -1: errno says why */

#endif
