/* weights.c - opens the files with the tensors of a model: model.safetensors, or several files that
 * model.safetensors.index.json lists:
 *
 *     {"metadata": {…}, "weight_map": {"TENSOR": "model-00001-of-00002.safetensors", …}}
 *
 * The index is not trusted: a file name that leads out of the folder is refused. Every tensor that
 * it lists must exist; other tensors are ignored. */
#include "encode/folder.h"
#include "encode/tower.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_MAX ((uint64_t)16 << 20) /* bytes */
#define MAX_FILES 256u                 /* each stays open while weights are read */

enum { SAMPLE = 4096 }; /* bytes of a tensor that tell models apart */

static kf_status open_file(kf_weights_file *file, const char *path, kf_err *err) {
  KF_TRY(kf_st_open(&file->st, path, err));
  if (file->st.n_tensors > UINT32_MAX / 2) return kf_fail_file(err, path, "has too many tensors");
  file->names = kf_dict_new((uint32_t)file->st.n_tensors);
  if (file->names == NULL) return kf_fail_memory(err);
  for (uint32_t i = 0; i < file->st.n_tensors; i++) {
    const char *name = file->st.tensors[i].name;
    if (!kf_dict_add(file->names, name, strlen(name), i)) return kf_fail_memory(err);
  }
  return KF_OK;
}

static kf_status make_list(kf_weights *w, uint32_t n, kf_err *err) {
  KF_TAKE_ZERO(&w->memory, w->tensors, n);
  w->names = kf_dict_new(n);
  return w->tensors != NULL && w->names != NULL ? KF_OK : kf_fail_memory(err);
}

static kf_status list_tensor(kf_weights *w, const kf_weights_file *file, const kf_st_tensor *tensor,
                             kf_err *err) {
  w->tensors[w->n_tensors] =
      (struct kf_weight){.name = tensor->name, .st = &file->st, .tensor = tensor};
  if (!kf_dict_add(w->names, tensor->name, strlen(tensor->name), w->n_tensors))
    return kf_fail_memory(err);
  w->n_tensors++;
  return KF_OK;
}

static kf_status open_single(kf_weights *w, kf_err *err) {
  w->n_files = 1;
  KF_TRY(open_file(&w->files[0], w->path, err));
  uint32_t n = (uint32_t)w->files[0].st.n_tensors;
  KF_TRY(make_list(w, n, err));
  for (uint32_t i = 0; i < n; i++)
    KF_TRY(list_tensor(w, &w->files[0], &w->files[0].st.tensors[i], err));
  return KF_OK;
}

/* --- several files --------------------------------------------------------------------------- */

static bool is_plain_name(const char *name) {
  return name != NULL && name[0] != '\0' && name[0] != '.' && strpbrk(name, "/\\") == NULL &&
         strlen(name) < 256;
}

typedef struct opening {
  kf_weights *w;
  const char *folder;
  const kf_json_doc *index;
  kf_dict *seen; /* file names to their numbers */
} opening;

/* The number of a file, which is opened when it is first named. */
static kf_status find_file(opening *o, const char *tensor, const char *name, uint32_t *number,
                           kf_err *err) {
  kf_weights *w = o->w;
  if (!is_plain_name(name))
    return kf_fail_file(err, w->path,
                        "the file of tensor '%.100s' is not the name of a file in the same folder",
                        tensor);
  int64_t found = kf_dict_find(o->seen, name, strlen(name));
  *number = found < 0 ? w->n_files : (uint32_t)found;
  if (found >= 0) return KF_OK;
  if (w->n_files == MAX_FILES)
    return kf_fail_file(err, w->path, "names more than %u files", MAX_FILES);
  const char *path = kf_path_join_in(&w->memory, o->folder, name);
  if (path == NULL || !kf_dict_add(o->seen, name, strlen(name), *number))
    return kf_fail_memory(err);
  return open_file(&w->files[w->n_files++], path, err);
}

static kf_status list_all(opening *o, const kf_json *map, kf_err *err) {
  for (const kf_json *entry = kf_json_first(o->index, map); entry != NULL;
       entry = kf_json_next(o->index, entry)) {
    uint32_t number = 0;
    KF_TRY(find_file(o, entry->key, kf_json_string(entry), &number, err));
    const kf_weights_file *file = &o->w->files[number];
    int64_t i = kf_dict_find(file->names, entry->key, strlen(entry->key));
    if (i < 0)
      return kf_fail_file(err, file->st.in.path,
                          "there is no tensor '%.100s', but the index lists it here", entry->key);
    KF_TRY(list_tensor(o->w, file, &file->st.tensors[i], err));
  }
  return KF_OK;
}

static kf_status open_several(kf_weights *w, const char *folder, const kf_json_file *index,
                              kf_err *err) {
  const kf_json *map = kf_json_file_get(index, "weight_map");
  if (map == NULL || map->kind != KF_JSON_OBJECT)
    return kf_fail_file(err, w->path, "has no object 'weight_map'");
  KF_TRY(make_list(w, map->count, err));
  opening o = {.w = w, .folder = folder, .index = &index->doc, .seen = kf_dict_new(16)};
  kf_status status = o.seen != NULL ? list_all(&o, map, err) : kf_fail_memory(err);
  kf_dict_free(o.seen);
  return status;
}

kf_status kf_weights_open(kf_weights *weights, const char *folder, kf_err *err) {
  static const char single[] = "model.safetensors", listed[] = "model.safetensors.index.json";
  *weights = (kf_weights){0};
  const char *alone = kf_path_join_in(&weights->memory, folder, single);
  weights->path = kf_path_join_in(&weights->memory, folder, listed);
  KF_TAKE_ZERO(&weights->memory, weights->files, MAX_FILES);
  if (weights->memory.failed) return kf_fail_memory(err);
  if (!kf_is_missing(alone)) {
    weights->path = alone;
    return open_single(weights, err);
  }
  kf_json_file index;
  KF_TRY(kf_json_file_read(&index, folder, listed, INDEX_MAX, err));
  kf_status status =
      index.found ? open_several(weights, folder, &index, err) : kf_fail_no_weights(folder, err);
  kf_json_file_clear(&index);
  return status;
}

void kf_weights_close(kf_weights *weights) {
  for (uint32_t i = 0; i < weights->n_files; i++) {
    kf_st_close(&weights->files[i].st);
    kf_dict_free(weights->files[i].names);
  }
  kf_dict_free(weights->names);
  kf_arena_free(&weights->memory);
  *weights = (kf_weights){0};
}

struct kf_weight *kf_weights_find(const kf_weights *weights, const char *name) {
  int64_t number = kf_dict_find(weights->names, name, strlen(name));
  return number < 0 ? NULL : &weights->tensors[number];
}

/* --- a sample --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  return strcmp((*(struct kf_weight *const *)a)->name, (*(struct kf_weight *const *)b)->name);
}

/* Reads the middle of a tensor: related models may have the same beginning. */
static kf_status sample_tensor(const struct kf_weight *w, kf_checksum *sum, kf_err *err) {
  const kf_st_tensor *t = w->tensor;
  unsigned char bytes[SAMPLE];
  uint64_t n = t->bytes < SAMPLE ? t->bytes : SAMPLE;
  KF_TRY(kf_in_read(&w->st->in, t->offset + (t->bytes - n) / 2, bytes, n, err));
  kf_checksum_add(sum, t->name, strlen(t->name) + 1);
  kf_checksum_add(sum, t->type_name, strlen(t->type_name) + 1);
  kf_checksum_add(sum, t->shape, t->ndim * sizeof *t->shape);
  kf_checksum_add(sum, bytes, n);
  return KF_OK;
}

/* Leaves out integers: positions, which only some versions of the reference store. */
kf_status kf_weights_sample(const kf_weights *weights, kf_checksum *sum, kf_err *err) {
  struct kf_weight **sorted = kf_alloc(weights->n_tensors, sizeof *sorted);
  if (sorted == NULL) return kf_fail_memory(err);
  uint32_t n = 0;
  for (uint32_t i = 0; i < weights->n_tensors; i++)
    if (kf_type_is_float(weights->tensors[i].tensor->type)) sorted[n++] = &weights->tensors[i];
  qsort(sorted, n, sizeof *sorted, by_name);
  kf_status status = KF_OK;
  for (uint32_t i = 0; status == KF_OK && i < n; i++) status = sample_tensor(sorted[i], sum, err);
  kf_free(sorted);
  return status;
}
