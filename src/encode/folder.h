/* folder.h - JSON files of a model folder, most of which are optional. Private to this room. */
#ifndef KF_ENCODE_FOLDER_H
#define KF_ENCODE_FOLDER_H

#include "base/json.h"

/* Whether there is no such file. A file that cannot be accessed is not missing. */
bool kf_is_missing(const char *path);

/* A file that holds a JSON object. */
typedef struct kf_json_file {
  char *path;
  kf_json_doc doc;
  bool found; /* false: there is no such file, and `doc` is empty */
} kf_json_file;
/* Reads FOLDER/NAME, of at most `most` bytes; a missing file is not an error. After a failure there
 * is nothing to clear. */
kf_status kf_json_file_read(kf_json_file *file, const char *folder, const char *name, uint64_t most,
                            kf_err *err);
void kf_json_file_clear(kf_json_file *file);
/* A member of the object; NULL: absent, as is everything in a missing file or in NULL. */
const kf_json *kf_json_file_get(const kf_json_file *file, const char *key);

/* Fail with a message that says what the path is, if not a folder with config.json or with weights,
 * and what is needed instead (other_folder.c). */
kf_status kf_fail_no_config(const char *folder, kf_err *err);
kf_status kf_fail_no_weights(const char *folder, kf_err *err);

#endif
