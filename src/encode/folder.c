/* folder.c - reads JSON files of a model folder, most of which are optional. */
#include "encode/folder.h"

#include <errno.h>
#include <unistd.h>

bool kf_is_missing(const char *path) { return access(path, F_OK) != 0 && errno == ENOENT; }

kf_status kf_json_file_read(kf_json_file *file, const char *folder, const char *name, uint64_t most,
                            kf_err *err) {
  *file = (kf_json_file){.path = kf_path_join(folder, name)};
  if (file->path == NULL) return kf_fail_memory(err);
  file->found = !kf_is_missing(file->path);
  kf_status status = file->found ? kf_json_load_object(file->path, most, &file->doc, err) : KF_OK;
  if (status != KF_OK) kf_json_file_clear(file);
  return status;
}

void kf_json_file_clear(kf_json_file *file) {
  kf_json_clear(&file->doc);
  kf_free(file->path);
  *file = (kf_json_file){0};
}

const kf_json *kf_json_file_get(const kf_json_file *file, const char *key) {
  return file != NULL && file->doc.n > 0 ? kf_json_get(&file->doc, &file->doc.nodes[0], key) : NULL;
}
