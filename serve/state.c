/* state.c - what is served: a model with its added classes, and a gallery.
 *
 * A world is immutable. Each request holds a reference to one; a change builds another and swaps it
 * in, and the old one is freed with its last reference. So no request waits for a change, and an
 * answer is consistent: all of it is about one model. */
#include "journal.h"
#include "server.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHANGES ".changes"

static const uint32_t find_limits[SV_CLASSIFIERS] = {5, 20, 100, SV_MAX_TOP, UINT32_MAX};

/* --- reference counts ------------------------------------------------------------------------- */

static void shelf_put(sv_shelf *shelf) {
  if (!shelf || atomic_fetch_sub(&shelf->users, 1) > 1) return;
  kf_gallery_free(shelf->koofu);
  kf_gallery_free(shelf->raw);
  kf_data_free(shelf->mapped);
  kf_data_free(shelf->rows);
  for (uint64_t i = 0; shelf->ids && i < shelf->n; i++) free(shelf->ids[i]);
  free(shelf->ids);
  free(shelf);
}

static void base_put(sv_base *base) {
  if (!base || atomic_fetch_sub(&base->users, 1) > 1) return;
  kf_model_free(base->model);
  kf_class_names_free(base->names);
  free(base);
}

static void added_free(sv_added *added, size_t n) {
  for (size_t i = 0; i < n; i++) free(added[i].name);
  free(added);
}

sv_world *sv_world_get(sv_server *s) {
  pthread_mutex_lock(&s->world_lock);
  sv_world *world = s->world;
  atomic_fetch_add(&world->users, 1);
  pthread_mutex_unlock(&s->world_lock);
  return world;
}

void sv_world_put(sv_world *w) {
  if (!w || atomic_fetch_sub(&w->users, 1) > 1) return;
  for (int i = 0; i < SV_CLASSIFIERS; i++) kf_classifier_free(atomic_load(&w->classifiers[i]));
  sv_maps_free(w->maps);
  if (w->base && w->model != w->base->model) kf_model_free(w->model);
  base_put(w->base);
  shelf_put(w->shelf);
  added_free(w->added, w->n_added);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

static void swap_world(sv_server *s, sv_world *world) {
  pthread_mutex_lock(&s->world_lock);
  sv_world *before = s->world;
  s->world = world;
  pthread_mutex_unlock(&s->world_lock);
  sv_world_put(before);
}

/* --- a world ---------------------------------------------------------------------------------- */

kf_status sv_world_classifier(sv_world *w, kf_ctx *ctx, uint32_t top, const kf_classifier **out,
                              uint32_t *finds) {
  int i = 0;
  while (i < SV_CLASSIFIERS - 1 && find_limits[i] < top) i++;
  *finds = find_limits[i] < w->answers ? find_limits[i] : w->answers;
  *out = atomic_load(&w->classifiers[i]);
  if (*out) return KF_OK;
  kf_status status = KF_OK;
  pthread_mutex_lock(&w->lock);
  if (!atomic_load(&w->classifiers[i])) {
    kf_classify_options options = {.top = *finds};
    kf_classifier *made = NULL;
    status = kf_classifier_new(ctx, w->model, &options, &made);
    atomic_store(&w->classifiers[i], made);
  }
  *out = atomic_load(&w->classifiers[i]);
  pthread_mutex_unlock(&w->lock);
  return status;
}

/* Takes ownership of its arguments, even on failure. */
static kf_status world_new(kf_ctx *ctx, sv_base *base, kf_model *model, sv_shelf *shelf,
                           sv_added *added, size_t n, sv_world **out) {
  sv_world *w = calloc(1, sizeof *w);
  *out = NULL;
  if (!w) {
    if (model != base->model) kf_model_free(model);
    base_put(base);
    shelf_put(shelf);
    added_free(added, n);
    return KF_ERR_MEM;
  }
  *w = (sv_world){.base = base, .model = model, .shelf = shelf, .added = added, .n_added = n};
  atomic_init(&w->users, 1);
  pthread_mutex_init(&w->lock, NULL);
  w->answers = kf_model_answers(w->model, KF_PART_DEFAULT);
  const kf_classifier *classifier;
  uint32_t finds;
  double nothing;
  int32_t none;
  kf_status status = sv_world_classifier(w, ctx, 1, &classifier, &finds);
  if (status != KF_OK) {
    sv_world_put(w);
    return status;
  }
  w->probabilities =
      kf_classifier_probabilities(ctx, classifier, NULL, 0, &none, &nothing, &nothing) == KF_OK;
  *out = w;
  return KF_OK;
}

int64_t sv_world_class(const sv_world *w, const char *name) {
  uint32_t n = kf_model_classes(w->model);
  for (uint32_t k = 0; k < n; k++) {
    const char *own = kf_model_class_name(w->model, k);
    if (own && strcmp(own, name) == 0) return k;
  }
  return -1;
}

const sv_added *sv_world_added(const sv_world *w, const char *name) {
  for (size_t i = 0; i < w->n_added; i++)
    if (strcmp(w->added[i].name, name) == 0) return &w->added[i];
  return NULL;
}

const char *sv_shelf_id(const sv_shelf *shelf, uint64_t row) {
  return shelf->ids ? shelf->ids[row] : kf_gallery_id(shelf->any, row);
}

/* --- added classes ---------------------------------------------------------------------------- */

kf_status sv_say(kf_ctx *ctx, kf_status status, char *message, size_t size) {
  if (status != KF_OK)
    snprintf(message, size, "%s", *kf_errmsg(ctx) ? kf_errmsg(ctx) : kf_status_name(status));
  return status;
}

/* Replaces *model by a copy with one more class; frees it unless it belongs to the base. */
static kf_status add_to(kf_ctx *ctx, const sv_base *base, kf_model **model, const sv_added *class,
                        const kf_data *rows, char *message, size_t size) {
  kf_model *wider = NULL;
  kf_text *text = NULL;
  kf_status status;
  if (class->text) {
    const char *name = class->name;
    kf_text_options options = {
        .per_class = (uint32_t)kf_data_rows(rows), .names = &name, .n_names = 1};
    status = kf_text_new(ctx, rows, &options, &text);
    if (status == KF_OK) status = kf_model_new_with_text(ctx, *model, text, &wider);
  } else {
    status = kf_model_new_with_class(ctx, *model, class->name, rows, &wider);
  }
  sv_say(ctx, status, message, size);
  kf_text_free(text);
  if (status != KF_OK) return status;
  if (*model != base->model) kf_model_free(*model);
  *model = wider;
  return KF_OK;
}

static bool keep(sv_added **added, size_t *n, const sv_added *class) {
  sv_added *more = realloc(*added, (*n + 1) * sizeof *more);
  if (!more) return false;
  *added = more;
  more[(*n)++] = *class;
  return true;
}

/* Adds the class of a file of the journal. A file that does not fit (any more) is skipped and
 * logged. Running out of memory is a failure and, with `strict`, so is a file that cannot be read:
 * it may work the next time. */
static kf_status replay_one(sv_server *s, kf_ctx *ctx, uint64_t number, const sv_base *base,
                            bool strict, kf_model **model, sv_added **added, size_t *n,
                            char *message, size_t size) {
  sv_added class;
  kf_data *rows;
  snprintf(message, size, "out of memory");
  kf_status status = sv_journal_read(s->journal, ctx, number, &rows, &class, message, size);
  if (status == KF_OK) status = add_to(ctx, base, model, &class, rows, message, size);
  kf_data_free(rows);
  if (status == KF_OK && keep(added, n, &class)) return KF_OK;
  free(class.name);
  if (status == KF_OK || status == KF_ERR_MEM || (strict && status == KF_ERR_IO))
    return status == KF_OK ? KF_ERR_MEM : status;
  sv_log(s, "%s/%06llu is skipped: %s", sv_journal_folder(s->journal), (unsigned long long)number,
         message);
  return KF_OK;
}

/* The base with all classes of the journal except number `except` (0: all). Removing a class is
 * strict, so that other classes do not vanish because their files cannot be read at the moment. */
static kf_status replay(sv_server *s, kf_ctx *ctx, const sv_base *base, uint64_t except,
                        kf_model **model, sv_added **added, size_t *n, char *message, size_t size) {
  uint64_t *numbers;
  size_t count;
  *model = base->model;
  *added = NULL;
  *n = 0;
  kf_status status = sv_journal_list(s->journal, &numbers, &count, message, size);
  for (size_t i = 0; status == KF_OK && i < count; i++)
    if (numbers[i] != except)
      status = replay_one(s, ctx, numbers[i], base, except != 0, model, added, n, message, size);
  free(numbers);
  if (status == KF_OK) return KF_OK;
  if (*model != base->model) kf_model_free(*model);
  added_free(*added, *n);
  return status;
}

static sv_shelf *shelf_share(sv_shelf *shelf) {
  if (shelf) atomic_fetch_add(&shelf->users, 1);
  return shelf;
}

static sv_base *base_share(sv_base *base) {
  atomic_fetch_add(&base->users, 1);
  return base;
}

static sv_added *added_copy(const sv_world *w, const sv_added *more) {
  sv_added *copy = calloc(w->n_added + 1, sizeof *copy);
  for (size_t i = 0; copy && i <= w->n_added; i++) {
    copy[i] = i < w->n_added ? w->added[i] : *more;
    copy[i].name = strdup(copy[i].name);
    if (copy[i].name) continue;
    added_free(copy, i);
    return NULL;
  }
  return copy;
}

/* A world with the same base and shelf, and all classes of the journal except one. */
static kf_status replay_world(sv_server *s, kf_ctx *ctx, const sv_world *before, uint64_t except,
                              sv_world **world, char *message, size_t size) {
  kf_model *model;
  sv_added *added;
  size_t n;
  kf_status status = replay(s, ctx, before->base, except, &model, &added, &n, message, size);
  if (status != KF_OK) return status;
  return sv_say(
      ctx,
      world_new(ctx, base_share(before->base), model, shelf_share(before->shelf), added, n, world),
      message, size);
}

/* Before a change: makes sure that what is served is what the journal holds. */
static kf_status hold_journal(sv_server *s, kf_ctx *ctx, char *message, size_t size) {
  bool found;
  kf_status status = sv_journal_hold(s->journal, &found, message, size);
  if (status != KF_OK || !found) return status;
  sv_world *before = sv_world_get(s), *world;
  status = replay_world(s, ctx, before, 0, &world, message, size);
  if (status == KF_OK) swap_world(s, world);
  sv_world_put(before);
  return status;
}

/* First builds the new world, so that nothing is written that cannot be served; then writes the
 * journal; then swaps the world in. */
static kf_status add_class(sv_server *s, kf_ctx *ctx, sv_world *before, const kf_data *rows,
                           sv_added *class, char *message, size_t size) {
  kf_model *model = before->model;
  sv_base keeps = {.model = before->model}; /* so that add_to does not free it */
  kf_status status = add_to(ctx, &keeps, &model, class, rows, message, size);
  if (status != KF_OK) return status;
  sv_added *added = added_copy(before, class);
  sv_world *world = NULL;
  if (!added) {
    kf_model_free(model);
    return KF_ERR_MEM;
  }
  status = sv_say(ctx,
                  world_new(ctx, base_share(before->base), model, shelf_share(before->shelf), added,
                            before->n_added + 1, &world),
                  message, size);
  if (status != KF_OK) return status;
  status = sv_journal_add(s->journal, ctx, rows, class->text, &added[before->n_added].number,
                          message, size);
  if (status == KF_OK)
    swap_world(s, world);
  else
    sv_world_put(world);
  return status;
}

static kf_status add_rows(sv_server *s, kf_ctx *ctx, const char *name, const float *rows,
                          uint64_t n, uint32_t dim, bool text, char *message, size_t size) {
  sv_world *before = sv_world_get(s);
  int32_t *labels = calloc(n, sizeof *labels);
  sv_added class = {.name = strdup(name), .rows = n, .text = text};
  kf_data *data = NULL;
  kf_status status = labels && class.name ? KF_OK : KF_ERR_MEM;
  snprintf(message, size, "out of memory");
  if (dim != kf_model_dim_in(before->model)) {
    snprintf(message, size, "the model has just changed and takes other rows now");
    status = KF_ERR_ARG;
  }
  if (status == KF_OK)
    status =
        sv_say(ctx, kf_data_open_memory(ctx, rows, n, dim, labels, &name, 1, &data), message, size);
  if (status == KF_OK) status = add_class(s, ctx, before, data, &class, message, size);
  kf_data_free(data);
  free(class.name);
  free(labels);
  sv_world_put(before);
  return status;
}

kf_status sv_state_add(sv_server *s, kf_ctx *ctx, const char *name, const float *rows, uint64_t n,
                       uint32_t dim, bool text, char *message, size_t size) {
  pthread_mutex_lock(&s->change_lock);
  kf_status status = hold_journal(s, ctx, message, size);
  if (status == KF_OK) status = add_rows(s, ctx, name, rows, n, dim, text, message, size);
  pthread_mutex_unlock(&s->change_lock);
  return status;
}

static kf_status remove_class(sv_server *s, kf_ctx *ctx, const char *name, char *message,
                              size_t size) {
  sv_world *before = sv_world_get(s), *world = NULL;
  const sv_added *class = sv_world_added(before, name);
  kf_status status = KF_ERR_ARG;
  snprintf(message, size, "the class has just been removed");
  if (class) status = replay_world(s, ctx, before, class->number, &world, message, size);
  if (status == KF_OK) status = sv_journal_remove(s->journal, class, message, size);
  if (status == KF_OK)
    swap_world(s, world);
  else
    sv_world_put(world);
  sv_world_put(before);
  return status;
}

kf_status sv_state_remove(sv_server *s, kf_ctx *ctx, const char *name, char *message, size_t size) {
  pthread_mutex_lock(&s->change_lock);
  kf_status status = hold_journal(s, ctx, message, size);
  if (status == KF_OK) status = remove_class(s, ctx, name, message, size);
  pthread_mutex_unlock(&s->change_lock);
  return status;
}

/* --- files ------------------------------------------------------------------------------------ */

static sv_stamp stamp_of(const char *path) {
  struct stat info;
  if (!path || stat(path, &info) != 0) return (sv_stamp){0};
  return (sv_stamp){.device = info.st_dev,
                    .inode = info.st_ino,
                    .size = (uint64_t)info.st_size,
                    .seconds = info.st_mtim.tv_sec,
                    .nanoseconds = info.st_mtim.tv_nsec};
}

/* The stamp of the folder with the changes of a gallery (docs/formats.md), which is next to the
 * real file. The files in it are never rewritten, so the folder itself changes whenever they do. */
static sv_stamp stamp_of_changes(const char *path) {
  char file[PATH_MAX], folder[PATH_MAX + sizeof CHANGES];
  if (!path || !realpath(path, file)) return (sv_stamp){0};
  snprintf(folder, sizeof folder, "%s" CHANGES, file);
  return stamp_of(folder);
}

static sv_stamps stamp_all(const sv_server *s) {
  const sv_options *o = &s->options;
  return (sv_stamps){{stamp_of(o->model), stamp_of(o->gallery), stamp_of_changes(o->gallery),
                      stamp_of(o->rows), stamp_of_changes(o->rows), stamp_of(o->names)}};
}

void sv_put_name(sv_text *t, const sv_world *w, uint32_t k) {
  if (!w->base->names) return;
  const char *name = kf_class_names_of(w->base->names, kf_model_class_name(w->model, k), k);
  sv_json_class(t, "display_name", name, k);
}

bool sv_state_changed(const sv_server *s, sv_stamps *now) {
  if (s->demo) return false;
  *now = stamp_all(s);
  return memcmp(now, &s->stamps, sizeof *now) != 0;
}

static kf_status load_names(const char *path, kf_ctx *ctx, sv_base *base) {
  uint32_t n = kf_model_classes(base->model);
  const char **labels = path ? calloc(n, sizeof *labels) : NULL;
  if (!path) return KF_OK;
  if (!labels) return KF_ERR_MEM;
  for (uint32_t k = 0; k < n; k++) labels[k] = kf_model_class_name(base->model, k);
  kf_status status = kf_class_names_load(ctx, path, *labels ? labels : NULL, n, &base->names);
  free(labels);
  return status;
}

static kf_status load_base(sv_server *s, kf_ctx *ctx, sv_base **out) {
  sv_base *base = calloc(1, sizeof *base);
  if (!base) return KF_ERR_MEM;
  atomic_init(&base->users, 1);
  kf_status status = s->demo ? sv_demo_model(ctx, &base->model)
                             : kf_model_load(ctx, s->options.model, &base->model);
  if (status == KF_OK) status = load_names(s->options.names, ctx, base);
  if (status != KF_OK) {
    base_put(base);
    return status;
  }
  base->written = s->stamps.of[0].seconds;
  *out = base;
  return KF_OK;
}

static kf_status load_ids(kf_ctx *ctx, sv_shelf *shelf) {
  enum { LONGEST = 65537 };
  char *id = malloc(LONGEST);
  shelf->ids = calloc(shelf->n, sizeof *shelf->ids);
  kf_status status = id && shelf->ids ? KF_OK : KF_ERR_MEM;
  for (uint64_t i = 0; status == KF_OK && i < shelf->n; i++) {
    status = kf_data_get_id(ctx, shelf->rows, i, id, LONGEST);
    if (status == KF_OK && !(shelf->ids[i] = strdup(id))) status = KF_ERR_MEM;
  }
  free(id);
  return status;
}

/* The raw rows: --rows, or a gallery without a map. */
static kf_status open_rows(sv_server *s, kf_ctx *ctx, sv_shelf *shelf) {
  if (s->demo) return sv_demo_rows(ctx, &shelf->rows);
  const char *path = s->options.rows;
  if (!path && shelf->raw) path = s->options.gallery;
  return path ? kf_data_open(ctx, &path, 1, NULL, &shelf->rows) : KF_OK;
}

static kf_status fill_shelf(sv_server *s, kf_ctx *ctx, const kf_model *model, sv_shelf *shelf) {
  kf_status status = KF_OK;
  if (s->options.gallery) {
    kf_gallery *gallery = NULL;
    status = kf_gallery_load(ctx, s->options.gallery, NULL, &gallery);
    if (status != KF_OK) return status;
    *(kf_gallery_mapped(gallery) ? &shelf->koofu : &shelf->raw) = gallery;
    if (shelf->koofu) status = kf_data_open(ctx, &s->options.gallery, 1, NULL, &shelf->mapped);
  }
  if (status == KF_OK) status = open_rows(s, ctx, shelf);
  if (status == KF_OK && shelf->rows && !shelf->koofu)
    status = kf_gallery_new(ctx, shelf->rows, model, NULL, &shelf->koofu);
  if (status == KF_OK && shelf->rows && !shelf->raw)
    status = kf_gallery_new(ctx, shelf->rows, NULL, NULL, &shelf->raw);
  if (status == KF_OK && shelf->koofu && s->encoder && kf_encoder_context(s->encoder) > 0)
    status = kf_gallery_prepare_text(ctx, shelf->koofu);
  if (status != KF_OK) return status;
  shelf->any = shelf->koofu ? shelf->koofu : shelf->raw;
  shelf->n = kf_gallery_rows(shelf->any);
  if (!kf_gallery_id(shelf->any, 0) && shelf->rows && kf_data_has_ids(shelf->rows))
    status = load_ids(ctx, shelf);
  return status;
}

static kf_status check_shelf(sv_server *s, kf_ctx *ctx, const kf_model *model,
                             const sv_shelf *shelf, char *message, size_t size) {
  uint32_t dim = kf_model_dim_in(model);
  const char *file = s->options.gallery ? s->options.gallery : s->options.rows;
  const char *rows = s->options.rows ? s->options.rows : s->options.gallery;
  *message = '\0';
  if (shelf->koofu && kf_gallery_dim_in(shelf->koofu) != dim)
    snprintf(message, size, "%s: takes rows of %u columns, the model %u", file,
             kf_gallery_dim_in(shelf->koofu), dim);
  else if (shelf->rows && kf_data_dim(shelf->rows) != dim)
    snprintf(message, size, "%s: has %u columns, the model takes %u", rows,
             kf_data_dim(shelf->rows), dim);
  else if (shelf->rows && kf_data_rows(shelf->rows) != shelf->n)
    snprintf(message, size, "%s has %llu rows, %s has %llu", rows,
             (unsigned long long)kf_data_rows(shelf->rows), file, (unsigned long long)shelf->n);
  if (*message) return KF_ERR_DATA;
  return sv_say(ctx, kf_origins_agree(ctx, kf_model_origin(model), kf_gallery_origin(shelf->any)),
                message, size);
}

static kf_status load_shelf(sv_server *s, kf_ctx *ctx, const kf_model *model, sv_shelf **out,
                            char *message, size_t size) {
  *out = NULL;
  if (!s->demo && !s->options.gallery && !s->options.rows) return KF_OK;
  sv_shelf *shelf = calloc(1, sizeof *shelf);
  if (!shelf) return KF_ERR_MEM;
  atomic_init(&shelf->users, 1);
  kf_status status = sv_say(ctx, fill_shelf(s, ctx, model, shelf), message, size);
  if (status == KF_OK) status = check_shelf(s, ctx, model, shelf, message, size);
  if (status == KF_OK)
    *out = shelf;
  else
    shelf_put(shelf);
  return status;
}

static kf_status check_encoder(sv_server *s, kf_ctx *ctx, const kf_model *model, char *message,
                               size_t size) {
  const kf_encoder *e = s->encoder;
  if (!e) return KF_OK;
  if (kf_encoder_dim(e) != kf_model_dim_in(model)) {
    snprintf(message, size, "%s: has %u dimensions, the model takes %u", s->options.encoder,
             kf_encoder_dim(e), kf_model_dim_in(model));
    return KF_ERR_DATA;
  }
  return sv_say(ctx, kf_origins_agree(ctx, kf_model_origin(model), kf_encoder_origin(e)), message,
                size);
}

kf_status sv_state_load(sv_server *s, kf_ctx *ctx, char *message, size_t size) {
  sv_base *base = NULL;
  sv_shelf *shelf = NULL;
  sv_world *world = NULL;
  kf_model *model;
  sv_added *added;
  size_t n;
  s->stamps = stamp_all(s); /* first: what changes during loading is loaded again */
  kf_status status = sv_say(ctx, load_base(s, ctx, &base), message, size);
  if (status != KF_OK) return status;
  status = check_encoder(s, ctx, base->model, message, size);
  if (status == KF_OK) status = load_shelf(s, ctx, base->model, &shelf, message, size);
  if (status == KF_OK && s->world) status = sv_journal_take(s->journal, message, size);
  if (status == KF_OK) status = replay(s, ctx, base, 0, &model, &added, &n, message, size);
  if (status != KF_OK) {
    base_put(base);
    shelf_put(shelf);
    return status;
  }
  status = sv_say(ctx, world_new(ctx, base, model, shelf, added, n, &world), message, size);
  if (status == KF_OK) swap_world(s, world);
  return status;
}

void sv_state_free(sv_server *s) {
  sv_world_put(s->world);
  s->world = NULL;
}
