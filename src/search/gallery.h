/* gallery.h - galleries and votes, for this room and those above it. */
#ifndef KF_SEARCH_GALLERY_H
#define KF_SEARCH_GALLERY_H

#include "search/search.h"

/* The space in which rows are compared. */
typedef struct kf_space {
  uint32_t dim;
  kf_metric metric;  /* never KF_METRIC_DEFAULT */
  kf_dtype dtype;    /* of rows that are kept: KF_F32, KF_F16 or KF_BF16 */
  const kf_map *map; /* from the original space to this one; NULL: it is the original space */
} kf_space;

/* A gallery's map for text (kf_map_for_text). */
struct kf_text_map {
  kf_map map;
  kf_arena arena;
};

/* Rows in one file: that of a gallery, or a change of it. */
typedef struct kf_gallery_part {
  kf_in in;        /* stays open or parked: leave-one-out and rerank_from_disk read rows */
  uint32_t change; /* number of the change; 0: the file of the gallery */
  kf_type type;
  uint64_t offset;      /* of the rows in the file */
  uint64_t first, rows; /* place of its first row; rows including removed ones */
} kf_gallery_part;

struct kf_gallery {
  uint32_t n_parts; /* 0: in memory */
  kf_gallery_part *parts;
  uint64_t places; /* rows of all parts */
  uint64_t n_ends;
  uint64_t *ends;  /* [n_ends] where the rows of each gallery end, if several were joined */
  uint64_t *place; /* [rows] the place of each row; NULL: none was removed */
  uint64_t rows;
  uint64_t first; /* row in the index: each rank may have a part of the rows */
  kf_space space;
  kf_map map;                             /* space.map points to it, unless that is NULL */
  _Atomic(struct kf_text_map *) text_map; /* NULL until kf_gallery_prepare_text */
  int32_t *labels;                        /* [rows]; NULL: none */
  int64_t *counts;                        /* [n_classes] rows of each */
  int64_t *id_ends;                       /* [rows] where the bytes of each id end; NULL: no ids */
  char *ids; /* concatenated, each with a NUL that id_ends does not count */
  uint32_t n_classes;
  uint32_t k;     /* neighbours that should vote; 0: unknown */
  kf_names names; /* n = 0: no names */
  kf_origin origin;
  uint32_t n_batches;
  uint64_t *batches; /* [n_batches] checksums of added rows, newest last */
  /* For writers: checksums of the file and of the last change (of the file, if there is none), the
   * number of changes, and whether there are changes of other files. */
  uint64_t base, last;
  uint64_t state; /* a checksum of these, over all joined galleries */
  uint32_t n_changes;
  bool others;
  bool has_labels, has_ids;
  bool in_place;
  bool sound; /* every row has been checked */
  kf_index *index;
  kf_arena arena; /* of the map, labels and ids */
};

/* --- in memory (gallery_new.c) ---------------------------------------------------------------- */

/* kf_gallery_new by the first `dim` directions of a map (NULL: in the original space). */
kf_status kf_gallery_make(kf_ctx *ctx, const kf_data *data, const kf_map *map, uint32_t dim,
                          kf_metric metric, kf_dtype dtype, kf_gallery **out);

/* --- the file (gallery_file.c) --------------------------------------------------------------- */

#define KF_GALLERY_FORMAT "koofu.gallery"

/* How much of a gallery is read. */
typedef enum kf_gallery_depth {
  KF_GALLERY_HEAD, /* headers, the map, which rows remain */
  KF_GALLERY_IDS,  /* ids as well */
  KF_GALLERY_ALL   /* and labels */
} kf_gallery_depth;
/* Opens a gallery with its changes and checks all but the rows; there is no index yet. verify: read
 * all files to look for damage, which one rank does for all. */
kf_status kf_gallery_open(const char *path, bool verify, kf_gallery **out, kf_err *err);
kf_status kf_gallery_open_to(const char *path, kf_gallery_depth depth, bool verify,
                             kf_gallery **out, kf_err *err);
/* Adds the rows of other galleries (gallery_join.c). */
kf_status kf_gallery_join(kf_gallery *gallery, const char *const *paths, uint64_t n, bool verify,
                          kf_err *err);
/* Combines two checksums. */
uint64_t kf_gallery_state(uint64_t a, uint64_t b);
/* The path of its file; NULL: it is in memory. */
const char *kf_gallery_path(const kf_gallery *gallery);
/* KF_ERR_ARG if writing `path` would replace a file of it. */
kf_status kf_gallery_refuse_overwrite(const kf_gallery *gallery, const char *path, kf_err *err);
/* KF_ERR_DATA if a file has changed since it was opened. */
kf_status kf_gallery_unchanged(const kf_gallery *gallery, kf_err *err);
/* Sets `counts` from the labels. */
kf_status kf_gallery_count(kf_gallery *gallery, kf_err *err);
/* Rows [first, first + n), for a kf_source. They are checked until the gallery is `sound`. */
kf_status kf_gallery_fetch(const void *gallery, const kf_kernels *kernels, uint64_t first,
                           uint64_t n, float *rows, kf_err *err);

/* --- sets of ids (id_set.c) ---------------------------------------------------------- */

typedef struct kf_id_set {
  size_t n;       /* ids; distinct ones, once it is ready */
  size_t n_found; /* ids that some row has */
  bool *found;    /* [n] */
  kf_string bytes;
  uint64_t *ends; /* of each in bytes */
  size_t room;
  kf_dict *dict;
  kf_arena arena;
} kf_id_set;
/* Adds an id; kf_id_set_ready ends adding. */
kf_status kf_id_set_add(kf_id_set *set, const char *id, size_t length, kf_err *err);
kf_status kf_id_set_ready(kf_id_set *set, kf_err *err);
/* Adds all ids of a list and makes the set ready. */
kf_status kf_id_set_take(kf_id_set *set, const kf_id_list *list, kf_err *err);
/* Whether the set has it; it then counts as found. */
bool kf_id_set_has(kf_id_set *set, const char *id);
void kf_id_set_clear(kf_id_set *set);

/* --- queries (gallery.c) --------------------------------------------------------------------- */

/* The space in which rows of a data set are compared: that of a map or, if NULL, the original
 * one. */
kf_status kf_space_for(const kf_map *map, const kf_data *data, kf_metric metric, kf_space *out,
                       kf_err *err);
/* Maps rows of the original space, given their squared lengths; without a map they are copied. */
kf_status kf_to_space(const kf_space *space, const kf_kernels *kernels, const float *rows,
                      const double *norm2, uint64_t n, float *out, kf_err *err);
/* kf_gallery_search; messages count queries from `first` on. */
kf_status kf_gallery_nearest(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                             uint64_t first, uint64_t n, uint32_t k,
                             const kf_search_options *options, int64_t *rows, double *scores,
                             kf_search_report *report);
/* Brings queries to the space of the rows, [n][dim]; the caller frees them. */
kf_status kf_gallery_map_queries(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                 uint64_t first, uint64_t n, const kf_search_options *options,
                                 float **out, kf_search_report *report);
/* The first `most` of rows [first, first + n), as queries that leave themselves out. */
kf_status kf_gallery_own_rows(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first, uint64_t n,
                              uint64_t most, kf_arena *arena, float **rows, int64_t **leave_out);
/* KF_ERR_ARG if a filter (NULL is fine) belongs to another gallery. */
kf_status kf_filter_check(const kf_filter *filter, const kf_gallery *gallery, kf_err *err);
/* kf_rows_taking_part with a filter. */
uint64_t kf_filter_most(const kf_filter *filter, uint64_t rows, const int64_t *leave_out,
                        uint64_t n);
/* KF_ERR_DATA if the rows of a data set do not have the length of queries, come from another
 * encoder, or are already mapped and would be mapped again. */
kf_status kf_gallery_check_data(const kf_gallery *gallery, const kf_data *data, kf_err *err);

/* --- votes (vote.c) -------------------------------------------------------------------------- */

#define KF_DEFAULT_NEIGHBOURS 15u

/* The votes of the neighbours of one query. */
typedef struct kf_poll {
  const kf_gallery *gallery;
  double temperature;                 /* 0: every vote counts 1 */
  uint32_t n;                         /* classes that have votes */
  int32_t classes[KF_MAX_NEIGHBOURS]; /* in the order of their nearest members */
  double votes[KF_MAX_NEIGHBOURS];
} kf_poll;

/* KF_ERR_DATA if the gallery has no labels, KF_ERR_ARG if the temperature is negative or not
 * finite. */
kf_status kf_poll_start(kf_poll *poll, const kf_gallery *gallery, int weighted, double temperature,
                        kf_err *err);
/* Counts the votes of neighbours [from, end) of a list, best first; from = 0 begins a new poll. So
 * one walk through a list gives the polls for rising k. */
void kf_poll_count(kf_poll *poll, const int64_t *rows, const double *scores, uint32_t from,
                   uint32_t end);
/* The number of classes before this one; UINT32_MAX if it has no votes. */
uint32_t kf_poll_position(const kf_poll *poll, int32_t class);

#endif
