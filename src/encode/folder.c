/* folder.c - the files of a model folder: paths, whole files, JSON objects. */
#include "encode/folder.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

char *kf_path_join(kf_arena *arena, const char *folder, const char *name) {
  size_t n = strlen(folder), size = n + strlen(name) + 2;
  char *path = kf_arena_take(arena, size, 1);
  if (path == NULL) return NULL;
  snprintf(path, size, "%s%s%s", folder, n > 0 && folder[n - 1] != '/' ? "/" : "", name);
  return path;
}

bool kf_is_missing(const char *path) { return access(path, F_OK) != 0 && errno == ENOENT; }

static kf_status read_open(const kf_in *in, kf_arena *arena, uint64_t most, char **out,
                           kf_err *err) {
  if (in->size > most)
    return kf_fail(err, KF_ERR_DATA, "%s: has %" PRIu64 " bytes, more than the limit of %" PRIu64,
                   in->path, in->size, most);
  char *bytes = kf_arena_take(arena, in->size + 1, 1);
  if (bytes == NULL) return kf_fail_memory(err);
  KF_TRY(kf_in_read(in, 0, bytes, in->size, err));
  bytes[in->size] = '\0';
  *out = bytes;
  return KF_OK;
}

kf_status kf_file_read(kf_arena *arena, const char *path, uint64_t most, char **out, size_t *length,
                       kf_err *err) {
  kf_in in;
  *out = NULL;
  KF_TRY(kf_in_open(&in, path, err));
  kf_status status = read_open(&in, arena, most, out, err);
  *length = (size_t)in.size;
  kf_in_close(&in);
  return status;
}

static kf_status parse(kf_json_file *file, kf_arena *scratch, uint64_t most, kf_err *err) {
  char *text = NULL, what[KF_WHERE_SIZE];
  KF_TRY(kf_file_read(scratch, file->path, most, &text, &file->length, err));
  snprintf(what, sizeof what, "%s: the file", file->path);
  KF_TRY(kf_json_parse(&file->doc, text, file->length, what, err));
  if (file->doc.nodes[0].kind == KF_JSON_OBJECT) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: is not a JSON object", file->path);
}

kf_status kf_json_file_read(kf_json_file *file, const char *folder, const char *name, uint64_t most,
                            kf_err *err) {
  *file = (kf_json_file){0};
  file->path = kf_path_join(&file->memory, folder, name);
  if (file->path == NULL) return kf_fail_memory(err);
  file->found = !kf_is_missing(file->path);
  if (!file->found) return KF_OK;
  kf_arena scratch = {0}; /* the document has a copy of the text */
  kf_status status = parse(file, &scratch, most, err);
  kf_arena_free(&scratch);
  if (status != KF_OK) kf_json_file_clear(file);
  return status;
}

void kf_json_file_clear(kf_json_file *file) {
  kf_json_clear(&file->doc);
  kf_arena_free(&file->memory);
  *file = (kf_json_file){0};
}

const kf_json *kf_json_file_get(const kf_json_file *file, const char *key) {
  return file != NULL && file->doc.n > 0 ? kf_json_get(&file->doc, &file->doc.nodes[0], key) : NULL;
}
