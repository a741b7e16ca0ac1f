/* npz.c - arrays of an .npz, the archive of .npy files that numpy.savez writes.
 *
 * Opening an archive reads the header of every array. The arrays that are asked for, or are the
 * only candidates, are then opened as files of their own (zip.c). */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

enum { PEEK_BYTES = 65536 }; /* the longest .npy preamble and header */

/* --- the archive --------------------------------------------------------------------------- */

/* An unreadable array, such as one of Python objects, does not make the others unusable. */
static kf_status read_array(kf_npz *npz, size_t member, unsigned char *bytes, kf_err *err) {
  const kf_zip_member *m = &npz->zip->members[member];
  size_t n = strlen(m->name), got = 0;
  if (!kf_ends_with(m->name, ".npy")) return KF_OK;
  const char *name = kf_copy_text(&npz->arena, m->name, n - 4);
  if (name == NULL) return kf_fail_memory(err);
  kf_npz_array *array = &npz->arrays[npz->n++];
  *array = (kf_npz_array){.name = name, .member = member};
  kf_err ignored;
  kf_status status = kf_zip_peek(npz->zip, m, bytes, PEEK_BYTES, &got, &ignored);
  if (status == KF_OK) status = kf_npy_parse(&array->npy, name, bytes, got, m->size, &ignored);
  array->readable = status == KF_OK;
  if (status == KF_ERR_IO || status == KF_ERR_MEM) *err = ignored;
  return status == KF_ERR_DATA ? KF_OK : status;
}

kf_status kf_npz_open(kf_npz *npz, const char *path, kf_err *err) {
  *npz = (kf_npz){0};
  KF_TAKE_ZERO(&npz->arena, npz->zip, 1);
  if (npz->zip == NULL) return kf_fail_memory(err);
  KF_TRY(kf_zip_open(npz->zip, path, err));
  unsigned char *bytes;
  KF_TAKE(&npz->arena, bytes, PEEK_BYTES);
  KF_TAKE(&npz->arena, npz->arrays, npz->zip->n);
  if (npz->arena.failed) return kf_fail_memory(err);
  for (size_t i = 0; i < npz->zip->n; i++) KF_TRY(read_array(npz, i, bytes, err));
  return npz->n > 0 ? KF_OK : kf_fail_file(err, path, "the archive holds no .npy");
}

void kf_npz_close(kf_npz *npz) {
  if (npz->zip != NULL) kf_zip_close(npz->zip);
  kf_arena_free(&npz->arena);
  *npz = (kf_npz){0};
}

static kf_status open_array(const kf_npz *npz, const kf_npz_array *array, kf_npy *npy,
                            kf_err *err) {
  kf_in in;
  KF_TRY(kf_zip_open_member(npz->zip, &npz->zip->members[array->member], &in, err));
  return kf_npy_open_in(npy, &in, err);
}

/* --- choosing ------------------------------------------------------------------------------ */

static const kf_npz_array *find(const kf_npz *npz, const char *name) {
  for (size_t i = 0; i < npz->n; i++)
    if (strcmp(npz->arrays[i].name, name) == 0) return &npz->arrays[i];
  return NULL;
}

static bool is_matrix(const kf_npz_array *a) {
  return a->readable && a->npy.ndim == 2 && kf_type_is_float(a->npy.type);
}

static bool is_list(const kf_npz_array *a) { return a->readable && kf_npy_is_labels(&a->npy); }

/* "FILE: WHAT; the archive holds 'a' (5 x 2 <f4), 'b' …" */
static kf_status refuse(const kf_npz *npz, kf_hint hint, const char *what, kf_err *err) {
  enum { LISTED = 20 };
  kf_string list = {0};
  for (size_t i = 0; i < npz->n && i < LISTED; i++) {
    const kf_npz_array *a = &npz->arrays[i];
    kf_string_addf(&list, "%s'%.64s' (", i > 0 ? ", " : "", a->name);
    if (!a->readable) kf_string_addf(&list, "unreadable");
    for (uint32_t d = 0; a->readable && d < a->npy.ndim; d++)
      kf_string_addf(&list, "%s%" PRIu64, d > 0 ? " x " : "", a->npy.shape[d]);
    if (a->readable) kf_string_addf(&list, "%s%s", a->npy.ndim > 0 ? " " : "", a->npy.type_name);
    kf_string_addf(&list, ")");
  }
  if (npz->n > LISTED) kf_string_addf(&list, ", …");
  kf_status status = list.failed
                         ? kf_fail_memory(err)
                         : kf_fail_hint(err, KF_ERR_DATA, hint, "%s: %s; the archive holds %s",
                                        npz->zip->in.path, what, list.data);
  kf_string_clear(&list);
  return status;
}

static kf_status find_named(const kf_npz *npz, const char *name, const kf_npz_array **out,
                            kf_err *err) {
  *out = find(npz, name);
  if (*out != NULL) return KF_OK;
  char what[128];
  snprintf(what, sizeof what, "there is no array '%.64s'", name);
  return refuse(npz, KF_HINT_NONE, what, err);
}

/* The only array that fits and has `rows` elements (0: any number); *n: how many do. */
static const kf_npz_array *find_only(const kf_npz *npz, bool (*fits)(const kf_npz_array *),
                                     uint64_t rows, size_t *n) {
  const kf_npz_array *found = NULL;
  *n = 0;
  for (size_t i = 0; i < npz->n; i++) {
    const kf_npz_array *a = &npz->arrays[i];
    if (!fits(a) || (rows > 0 && a->npy.shape[0] != rows)) continue;
    found = a;
    ++*n;
  }
  return *n == 1 ? found : NULL;
}

/* If nothing else fits, an unreadable array may be meant; opening it says what is wrong. */
static const kf_npz_array *find_unreadable(const kf_npz *npz) {
  for (size_t i = 0; i < npz->n; i++)
    if (!npz->arrays[i].readable) return &npz->arrays[i];
  return NULL;
}

/* The requested array, or "embeddings", or the only matrix. */
static kf_status find_rows(const kf_npz *npz, const char *name, const kf_npz_array **out,
                           kf_err *err) {
  size_t n;
  if (name != NULL) return find_named(npz, name, out, err);
  *out = find(npz, KF_TENSOR_ROWS);
  if (*out == NULL || !is_matrix(*out)) *out = find_only(npz, is_matrix, 0, &n);
  if (*out == NULL && n == 0) *out = find_unreadable(npz);
  if (*out != NULL) return KF_OK;
  return refuse(npz, n > 0 ? KF_HINT_TENSOR : KF_HINT_NONE,
                n > 0 ? "several arrays are matrices of floats" : "no array is a matrix of floats",
                err);
}

/* Labels next to rows: the requested array, or "labels", or the only list of
 * that length. NULL: none. */
static kf_status find_inner_labels(const kf_npz *npz, kf_shard *shard, const char *name,
                                   const kf_npz_array **out, kf_err *err) {
  size_t n;
  *out = find(npz, name != NULL ? name : KF_TENSOR_LABELS);
  if (name != NULL || (*out != NULL && is_list(*out))) return KF_OK;
  *out = find_only(npz, is_list, shard->table.rows, &n);
  shard->guessed = *out != NULL;
  if (n < 2) return KF_OK;
  return refuse(npz, KF_HINT_LABEL_TENSOR, "several arrays could be the labels of its rows", err);
}

/* --- rows and labels ----------------------------------------------------------------------- */

/* Opens "FILE.npz" or "FILE.npz:NAME"; *name is NULL without a name. */
static kf_status open_named(kf_npz *npz, const char *path, const char **name, kf_err *err) {
  const char *suffix = kf_npz_suffix(path);
  *npz = (kf_npz){0};
  *name = suffix != NULL ? suffix + 1 : NULL;
  if (suffix == NULL) return kf_npz_open(npz, path, err);
  char *archive = kf_strdup(path);
  if (archive == NULL) return kf_fail_memory(err);
  archive[suffix - path] = '\0';
  kf_status status = kf_npz_open(npz, archive, err);
  kf_free(archive);
  return status;
}

static kf_status use_rows(const kf_npz *npz, kf_shard *shard, const char *name,
                          const kf_data_options *options, kf_err *err) {
  const kf_npz_array *array;
  kf_npy npy;
  KF_TRY(find_rows(npz, name != NULL ? name : options->tensor, &array, err));
  KF_TRY(open_array(npz, array, &npy, err));
  KF_TRY(kf_shard_open_npy(shard, &npy, err));
  if (options->inner_labels == KF_OFF || options->n_labels > 0) return KF_OK;
  KF_TRY(find_inner_labels(npz, shard, options->label_tensor, &array, err));
  if (array == NULL) return KF_OK;
  KF_TRY(open_array(npz, array, &npy, err));
  return kf_labels_open_npy(&shard->labels, &npy, err);
}

kf_status kf_npz_open_rows(kf_shard *shard, const char *path, const kf_data_options *options,
                           kf_err *err) {
  kf_npz npz;
  const char *name;
  kf_status status = open_named(&npz, path, &name, err);
  if (status == KF_OK) status = use_rows(&npz, shard, name, options, err);
  kf_npz_close(&npz);
  return status;
}

/* The requested array, or the only list of that length, or the only list. */
static kf_status use_labels(const kf_npz *npz, kf_labels *labels, const char *name, uint64_t rows,
                            kf_err *err) {
  const kf_npz_array *array = NULL;
  size_t n = 0;
  kf_npy npy;
  if (name != NULL) KF_TRY(find_named(npz, name, &array, err));
  if (array == NULL) array = find_only(npz, is_list, rows, &n);
  if (array == NULL && n == 0) array = find_only(npz, is_list, 0, &n);
  if (array == NULL && n == 0) array = find_unreadable(npz);
  if (array == NULL)
    return refuse(npz, KF_HINT_NONE,
                  n > 0 ? "several arrays could be labels; name one as FILE.npz:NAME"
                        : "no array is a list of integers or strings",
                  err);
  KF_TRY(open_array(npz, array, &npy, err));
  return kf_labels_open_npy(labels, &npy, err);
}

kf_status kf_npz_open_labels(kf_labels *labels, const char *path, uint64_t rows, kf_err *err) {
  kf_npz npz;
  const char *name;
  kf_status status = open_named(&npz, path, &name, err);
  if (status == KF_OK) status = use_labels(&npz, labels, name, rows, err);
  kf_npz_close(&npz);
  return status;
}
