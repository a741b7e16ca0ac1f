/* folder.h - the files of a model folder: paths, whole files, JSON objects. Stays in its room. */
#ifndef KF_ENCODE_FOLDER_H
#define KF_ENCODE_FOLDER_H

#include "base/json.h"

/* FOLDER/NAME, in the arena; NULL: out of memory. */
char *kf_path_join(kf_arena *arena, const char *folder, const char *name);
/* Whether there is no such file. One that cannot be examined is not missing. */
bool kf_is_missing(const char *path);
/* A whole file of at most `most` bytes, in the arena, with a NUL after it. */
kf_status kf_file_read(kf_arena *arena, const char *path, uint64_t most, char **out, size_t *length,
                       kf_err *err);

/* A JSON object in a file of its own. */
typedef struct kf_json_file {
  kf_arena memory;
  const char *path;
  size_t length; /* of the file, in bytes */
  kf_json_doc doc;
  bool found; /* false: there is no such file, and `doc` is empty */
} kf_json_file;
/* Reads FOLDER/NAME, of at most `most` bytes; a missing file is not an error here. On failure there
 * is nothing to clear. */
kf_status kf_json_file_read(kf_json_file *file, const char *folder, const char *name, uint64_t most,
                            kf_err *err);
void kf_json_file_clear(kf_json_file *file);
/* A member of the object; NULL: absent, as is everything in a missing file or in NULL. */
const kf_json *kf_json_file_get(const kf_json_file *file, const char *key);

#endif
