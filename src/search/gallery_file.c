/* gallery_file.c - reads a gallery: a .safetensors file that is also a native data set, with a
 * checksum and the map inside, and the changes beside it (docs/formats.md). gallery_save.c writes
 * the file, gallery_change.c changes.
 *
 * Rows stay in the files and are read by position. Memory is allocated only for what a file is
 * known to hold, and nothing is used before it has been checked. */
#include "search/gallery.h"
#include "search/index.h"

#include <string.h>

/* --- rows ------------------------------------------------------------------------------------ */

const char *kf_gallery_path(const kf_gallery *g) {
  return g->n_parts > 0 ? g->parts[0].in.path : NULL;
}

kf_status kf_gallery_refuse_overwrite(const kf_gallery *g, const char *path, kf_err *err) {
  for (uint32_t i = 0; i < g->n_parts; i++) KF_TRY(kf_refuse_overwrite(path, &g->parts[i].in, err));
  return KF_OK;
}

kf_status kf_gallery_unchanged(const kf_gallery *g, kf_err *err) {
  for (const kf_gallery_part *part = g->parts; part < g->parts + g->n_parts; part++)
    if (!kf_in_unchanged(&part->in))
      return kf_fail_file(err, part->in.path, "changed since it was loaded");
  return KF_OK;
}

/* Checks tensors of a part that are in memory. n_classes: an upper bound for labels. */
static kf_status check(const kf_gallery *g, const kf_gallery_part *part, const kf_kernels *kernels,
                       const kf_st_field *fields, size_t n, uint64_t first, uint32_t n_classes,
                       kf_err *err) {
  bool cosine = g->space.metric == KF_METRIC_COSINE;
  return kf_check_tensors(&(kf_contents){.rules = &kf_gallery_rules,
                                         .path = part->in.path,
                                         .fields = fields,
                                         .n_fields = n,
                                         .kernels = kernels,
                                         .first = first,
                                         .direction = cosine,
                                         .unit = cosine && g->space.map != NULL,
                                         .type = part->type,
                                         .n_classes = n_classes > 0 ? n_classes : KF_MAX_CLASSES},
                          err);
}

/* The part that holds a place: the last one that begins at or before it. */
static const kf_gallery_part *part_of(const kf_gallery *g, uint64_t place) {
  uint32_t low = 0, high = g->n_parts;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (g->parts[middle].first <= place)
      low = middle;
    else
      high = middle;
  }
  return &g->parts[low];
}

/* n rows of a part, from its row `first` on. */
static kf_status read_rows(const kf_gallery *g, const kf_gallery_part *part,
                           const kf_kernels *kernels, uint64_t first, uint64_t n, float *rows,
                           kf_err *err) {
  uint64_t dim = g->space.dim, size = kf_type_size(part->type);
  KF_TRY(kf_in_read_f32(&part->in, kernels, part->type, part->offset + first * dim * size, n * dim,
                        rows, err));
  kf_st_field field = {KF_TENSOR_ROWS, KF_TYPE_F32, 2, {n, dim}, rows}; /* as they are in memory */
  return g->sound ? KF_OK : check(g, part, kernels, &field, 1, first, 0, err);
}

kf_status kf_gallery_fetch(const void *gallery, const kf_kernels *kernels, uint64_t first,
                           uint64_t n, float *rows, kf_err *err) {
  const kf_gallery *g = gallery;
  if (g->n_parts == 0) {
    kf_index_copy(g->index, kernels, first, n, rows);
    return KF_OK;
  }
  for (uint64_t done = 0, run; done < n; done += run) {
    const uint64_t *places = g->place != NULL ? g->place + first + done : NULL;
    uint64_t place = places != NULL ? *places : first + done;
    const kf_gallery_part *part = part_of(g, place);
    uint64_t most = part->first + part->rows - place;
    if (most > n - done) most = n - done;
    run = 1; /* rows that follow one another are read together */
    while (run < most && (places == NULL || places[run] == place + run)) run++;
    KF_TRY(read_rows(g, part, kernels, place - part->first, run, rows + done * g->space.dim, err));
  }
  return KF_OK;
}

static kf_status read_space(const kf_st *st, kf_gallery *g, kf_err *err) {
  const kf_st_tensor *rows;
  const kf_st_tensor *found = kf_st_find(st, KF_TENSOR_ROWS);
  kf_type type = found != NULL ? found->type : KF_TYPE_F32;
  g->space.dtype = type == KF_TYPE_F16 ? KF_F16 : type == KF_TYPE_BF16 ? KF_BF16 : KF_F32;
  KF_TRY(kf_st_expect(st, KF_TENSOR_ROWS, kf_type_of(g->space.dtype), 2, (int64_t[]){-1, -1}, &rows,
                      err));
  if (rows->shape[0] < 1 || rows->shape[1] < 1 || rows->shape[1] > KF_MAX_DIM)
    return kf_fail_file(err, st->in.path, "invalid gallery of %llu rows of %llu columns",
                        (unsigned long long)rows->shape[0], (unsigned long long)rows->shape[1]);
  g->space.dim = (uint32_t)rows->shape[1];
  const char *metric = kf_st_meta(st, "metric");
  if (metric == NULL) return kf_fail_file(err, st->in.path, "there is no metadata 'metric'");
  for (int m = KF_METRIC_COSINE; m <= KF_METRIC_INNER; m++)
    if (strcmp(metric, kf_metric_name((kf_metric)m)) == 0) g->space.metric = (kf_metric)m;
  int64_t k = 0;
  if (kf_st_meta(st, "k") != NULL) KF_TRY(kf_st_meta_i64(st, "k", &k, err));
  g->k = (uint32_t)k;
  if (kf_st_find(st, "transform") == NULL) return KF_OK;
  KF_TRY(kf_map_load(st, &g->map, &g->arena, err));
  g->space.map = &g->map;
  if (g->map.dim_out == g->space.dim) return KF_OK;
  return kf_fail_file(err, st->in.path, "the map gives %u columns, the rows have %u",
                      g->map.dim_out, g->space.dim);
}

/* --- reading --------------------------------------------------------------------------------- */

/* The file of a gallery, and its changes. */
typedef struct reading {
  kf_st st;
  kf_changes changes;
  uint32_t own_names; /* class names in the file */
  kf_gallery *g;
} reading;

/* The header of a part. */
static kf_st *header_of(reading *r, const kf_gallery_part *part) {
  return part->change == 0 ? &r->st : &r->changes.change[part->change - 1].st;
}

/* --- labels ---------------------------------------------------------------------------------- */

kf_status kf_gallery_count(kf_gallery *g, kf_err *err) {
  KF_TAKE_ZERO(&g->arena, g->counts, g->n_classes);
  if (g->arena.failed) return kf_fail_memory(err);
  for (uint64_t i = 0; i < g->rows; i++)
    if (g->labels[i] >= 0) g->counts[g->labels[i]]++;
  return KF_OK;
}

/* Reads the labels of a part to their places. n_classes: classes named so far. */
static kf_status read_part_labels(reading *r, const kf_gallery_part *part, uint32_t n_classes,
                                  kf_err *err) {
  const kf_gallery *g = r->g;
  const kf_st_tensor *labels;
  int32_t *to = g->labels + part->first;
  KF_TRY(kf_st_expect(header_of(r, part), KF_TENSOR_LABELS, KF_TYPE_I32, 1,
                      (int64_t[]){(int64_t)part->rows}, &labels, err));
  KF_TRY(kf_in_read(&part->in, labels->offset, to, part->rows * sizeof *to, err));
  kf_st_field field = {KF_TENSOR_LABELS, KF_TYPE_I32, 1, {part->rows, 1}, to};
  return check(g, part, NULL, &field, 1, 0, n_classes, err);
}

static kf_status read_labels(reading *r, kf_err *err) {
  kf_gallery *g = r->g;
  uint32_t known = r->own_names, change = 0;
  KF_TAKE(&g->arena, g->labels, g->places);
  if (g->arena.failed) return kf_fail_memory(err);
  for (const kf_gallery_part *part = g->parts; part < g->parts + g->n_parts; part++) {
    for (; change < part->change; change++) known += r->changes.change[change].names.n;
    KF_TRY(read_part_labels(r, part, known, err));
  }
  for (uint64_t i = 0; g->place != NULL && i < g->rows; i++) g->labels[i] = g->labels[g->place[i]];
  g->n_classes = g->names.n;
  for (uint64_t i = 0; i < g->rows; i++)
    if (g->labels[i] >= (int64_t)g->n_classes) g->n_classes = (uint32_t)g->labels[i] + 1;
  return kf_gallery_count(g, err);
}

/* --- ids ------------------------------------------------------------------------------------- */

enum { IDS_AT_ONCE = 256 };

/* Appends ids [first, first + n) of a part. */
static kf_status take_ids(kf_gallery *g, const kf_gallery_part *part, const kf_ids *ids,
                          uint64_t first, uint64_t n, kf_err *err) {
  uint64_t lengths[IDS_AT_ONCE], place = part->first + first;
  int64_t end = place > 0 ? g->id_ends[place - 1] : 0;
  uint64_t begin = part->first > 0 ? (uint64_t)g->id_ends[part->first - 1] : 0;
  kf_string bytes = {0};
  kf_status status = kf_ids_fetch(ids, &part->in, first, n, lengths, &bytes, err);
  const char *from = bytes.data;
  if (status == KF_OK && (uint64_t)end + bytes.n - begin > ids->n_bytes) /* room is for those */
    status = kf_fail_file(err, part->in.path, "was changed while it was read");
  for (uint64_t i = 0; status == KF_OK && i < n; from += lengths[i++]) {
    char *id = g->ids + end + place + i; /* after the ids before it, and a NUL for each */
    memcpy(id, from, lengths[i]);
    id[lengths[i]] = '\0';
    end = g->id_ends[place + i] = end + (int64_t)lengths[i];
  }
  kf_string_clear(&bytes);
  return status;
}

static kf_status read_part_ids(kf_gallery *g, const kf_gallery_part *part, const kf_ids *ids,
                               kf_err *err) {
  for (uint64_t first = 0; first < part->rows; first += IDS_AT_ONCE) {
    uint64_t left = part->rows - first;
    KF_TRY(take_ids(g, part, ids, first, left < IDS_AT_ONCE ? left : IDS_AT_ONCE, err));
  }
  if (part->first == 0) {
    const kf_st_field fields[] = {{KF_TENSOR_ID_ENDS, KF_TYPE_I64, 1, {part->rows, 1}, g->id_ends},
                                  {KF_TENSOR_ID_BYTES, KF_TYPE_U8, 1, {ids->n_bytes, 1}, NULL}};
    return check(g, part, NULL, fields, 2, 0, 0, err);
  }
  int64_t bytes = g->id_ends[part->first + part->rows - 1] - g->id_ends[part->first - 1];
  if ((uint64_t)bytes == ids->n_bytes) return KF_OK;
  return kf_fail_file(err, part->in.path, "the last of 'id_ends' is not the length of 'id_bytes'");
}

/* Closes the gaps that ids of removed rows left. */
static void keep_living_ids(kf_gallery *g) {
  int64_t end = 0;
  char *to = g->ids;
  for (uint64_t i = 0; g->place != NULL && i < g->rows; i++) {
    uint64_t place = g->place[i]; /* not before i, so its end has not been overwritten yet */
    int64_t begin = place > 0 ? g->id_ends[place - 1] : 0;
    size_t length = (size_t)(g->id_ends[place] - begin);
    memmove(to, g->ids + begin + place, length + 1);
    to += length + 1;
    end += (int64_t)length;
    g->id_ends[i] = end;
  }
}

static kf_status read_ids(reading *r, kf_err *err) {
  kf_gallery *g = r->g;
  kf_ids *ids = kf_alloc(g->n_parts, sizeof *ids);
  uint64_t bytes = 0;
  kf_status status = ids != NULL ? KF_OK : kf_fail_memory(err);
  for (uint32_t i = 0; status == KF_OK && i < g->n_parts; i++) {
    status = kf_ids_open(&ids[i], header_of(r, &g->parts[i]), g->parts[i].rows, err);
    bytes += status == KF_OK ? ids[i].n_bytes : 0;
  }
  if (status == KF_OK) {
    KF_TAKE(&g->arena, g->id_ends, g->places);
    KF_TAKE(&g->arena, g->ids, bytes + g->places);
    if (g->arena.failed) status = kf_fail_memory(err);
  }
  for (uint32_t i = 0; status == KF_OK && i < g->n_parts; i++)
    status = read_part_ids(g, &g->parts[i], &ids[i], err);
  kf_free(ids);
  if (status == KF_OK) keep_living_ids(g);
  return status;
}

/* --- batches --------------------------------------------------------------------------------- */

/* The batches of the file, unless rows of it were removed, then those of changes that are still
 * whole. */
static kf_status read_batches(reading *r, kf_err *err) {
  kf_gallery *g = r->g;
  const kf_changes *c = &r->changes;
  const kf_st_tensor *own = NULL;
  if (kf_st_find(&r->st, KF_TENSOR_BATCHES) != NULL) {
    KF_TRY(kf_st_expect(&r->st, KF_TENSOR_BATCHES, KF_TYPE_U64, 1, (int64_t[]){-1}, &own, err));
    if (own->shape[0] < 1 || own->shape[0] > KF_MAX_BATCHES)
      return kf_fail_file(err, r->st.in.path,
                          "tensor '" KF_TENSOR_BATCHES "' has %llu elements, not 1 to %d",
                          (unsigned long long)own->shape[0], KF_MAX_BATCHES);
    if (c->base_removed > 0) own = NULL;
  }
  uint32_t n = own != NULL ? (uint32_t)own->shape[0] : 0;
  KF_TAKE(&g->arena, g->batches, (uint64_t)n + c->n);
  if (g->arena.failed) return kf_fail_memory(err);
  if (own != NULL)
    KF_TRY(kf_in_read(&g->parts[0].in, own->offset, g->batches, n * sizeof *g->batches, err));
  for (uint32_t i = 0; i < c->n; i++)
    if (c->change[i].rows > 0 && kf_change_is_whole(c, i)) g->batches[n++] = c->change[i].batch;
  uint32_t forgotten = n > KF_MAX_BATCHES ? n - KF_MAX_BATCHES : 0;
  memmove(g->batches, g->batches + forgotten, (n - forgotten) * sizeof *g->batches);
  g->n_batches = n - forgotten;
  return KF_OK;
}

/* --- the whole gallery ------------------------------------------------------------------------ */

uint64_t kf_gallery_state(uint64_t a, uint64_t b) {
  kf_checksum sum;
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, (uint64_t[]){a, b}, 2 * sizeof a);
  return kf_checksum_value(&sum);
}

/* Adds a part, which takes over the open file of its header. */
static void take_part(kf_gallery *g, kf_st *st, uint32_t change, uint64_t offset, uint64_t first,
                      uint64_t rows) {
  kf_gallery_part *part = &g->parts[g->n_parts++];
  *part = (kf_gallery_part){.in = st->in,
                            .change = change,
                            .type = kf_type_of(g->space.dtype),
                            .offset = offset,
                            .first = first,
                            .rows = rows};
  st->in = (kf_in){.fd = -1, .path = part->in.path}; /* for messages; the part closes it */
}

static kf_status take_parts(reading *r, kf_err *err) {
  kf_gallery *g = r->g;
  kf_changes *c = &r->changes;
  g->parts = kf_alloc_zero((uint64_t)c->n + 1, sizeof *g->parts);
  if (g->parts == NULL) return kf_fail_memory(err);
  uint64_t offset = kf_st_find(&r->st, KF_TENSOR_ROWS)->offset;
  take_part(g, &r->st, 0, offset, 0, c->base_rows);
  for (uint32_t i = 0; i < c->n; i++) {
    kf_change *change = &c->change[i];
    if (change->rows > 0)
      take_part(g, &change->st, i + 1, change->offset, change->first, change->rows);
  }
  g->places = c->places;
  g->rows = c->places - c->n_removed;
  g->base = g->last = c->base;
  if (c->n > 0) g->last = c->change[c->n - 1].checksum;
  g->state = kf_gallery_state(g->base, g->last);
  g->n_changes = c->n;
  g->others = c->others;
  return kf_changes_living(c, &g->place, err);
}

/* What changes hold besides rows: the last k, and encoders, which may differ only if that was
 * allowed. */
static kf_status take_changes(reading *r, kf_err *err) {
  kf_gallery *g = r->g;
  g->origin.any = true;
  for (uint32_t i = 0; i < r->changes.n; i++) {
    const kf_st *st = &r->changes.change[i].st;
    kf_origin origin = {0};
    int64_t k;
    KF_TRY(kf_st_origin(st, &origin, err));
    KF_TRY(kf_origin_join(&g->origin, &origin, err));
    if (kf_st_meta(st, "k") == NULL) continue;
    KF_TRY(kf_st_meta_i64(st, "k", &k, err));
    if (k < 1 || k > KF_MAX_NEIGHBOURS)
      return kf_fail_file(err, st->in.path, "metadata 'k' is not 1 to %u", KF_MAX_NEIGHBOURS);
    g->k = (uint32_t)k;
  }
  g->origin.any = false;
  return KF_OK;
}

static kf_status read_all(reading *r, kf_gallery_depth depth, bool verify, kf_err *err) {
  const kf_st *st = &r->st;
  kf_gallery *g = r->g;
  KF_TRY((verify ? kf_st_check_file : kf_st_check_format)(st, KF_GALLERY_FORMAT, "a koofu gallery",
                                                          err));
  KF_TRY(kf_check_header(&kf_gallery_rules, st, err));
  KF_TRY(kf_st_origin(st, &g->origin, err));
  KF_TRY(read_space(st, g, err));
  g->has_labels = kf_st_find(st, KF_TENSOR_LABELS) != NULL;
  g->has_ids = kf_st_find(st, KF_TENSOR_ID_ENDS) != NULL;
  if (g->has_labels) KF_TRY(kf_st_meta_names(st, &g->names, err));
  r->own_names = g->names.n;
  KF_TRY(kf_changes_names(&r->changes, st->in.path, &g->names, err));
  g->n_classes = g->names.n;
  KF_TRY(take_changes(r, err));
  KF_TRY(take_parts(r, err));
  if (g->has_labels && depth >= KF_GALLERY_ALL) KF_TRY(read_labels(r, err));
  if (g->has_ids && depth >= KF_GALLERY_IDS) KF_TRY(read_ids(r, err));
  return read_batches(r, err);
}

kf_status kf_gallery_open_to(const char *path, kf_gallery_depth depth, bool verify,
                             kf_gallery **out, kf_err *err) {
  reading r = {.g = kf_alloc_zero(1, sizeof *r.g)};
  if (r.g == NULL) return kf_fail_memory(err);
  kf_status status = kf_changes_open(&r.changes, &r.st, path, verify, err);
  if (status != KF_OK) {
    kf_free(r.g);
    return status;
  }
  status = read_all(&r, depth, verify, err);
  for (uint32_t i = 0; i < r.g->n_parts; i++) header_of(&r, &r.g->parts[i])->in.path = NULL;
  kf_changes_close(&r.changes);
  kf_st_close(&r.st);
  KF_HAND_OUT(status, out, r.g, kf_gallery_free);
}

kf_status kf_gallery_open(const char *path, bool verify, kf_gallery **out, kf_err *err) {
  return kf_gallery_open_to(path, KF_GALLERY_ALL, verify, out, err);
}
