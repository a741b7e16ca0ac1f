/* truth.h - the entries of a truth file, read by truth_read.c and assigned to rows by truth.c;
 * private to this room. */
#ifndef KF_SCORE_TRUTH_H
#define KF_SCORE_TRUTH_H

#include "base/json.h"
#include "score/score.h"

/* The entries of a file. */
typedef struct kf_entries {
  const char *path;
  uint64_t n;
  uint64_t *ends; /* [n] where the classes of each entry end in the list */
  size_t ends_room;
  int32_t *classes; /* numbers as the file has them, or of the names */
  size_t n_classes, classes_room;
  int64_t largest; /* number; -1: none */
  enum { KF_CLASSES_UNKNOWN, KF_CLASSES_NUMBERS, KF_CLASSES_NAMES } kind;
  kf_name_set found; /* names, if no list of them was given */
  /* ids, of a .csv that has such a column: one after the other */
  bool has_ids;
  kf_string ids;
  uint64_t *id_ends; /* [n] */
  size_t id_ends_room;
  bool numbered; /* entry i is that of the image with number i + 1: .json */
} kf_entries;

/* names: the names of class numbers, from the file `classes`; n = 0: none. The entries must be
 * cleared after a failure, too. */
kf_status kf_entries_read(kf_entries *entries, const char *path, const kf_names *names,
                          const char *classes, kf_err *err);
void kf_entries_clear(kf_entries *entries);

/* Removes the folder, and an extension such as ".JPEG", from an id. */
void kf_id_without_folder(const char **text, size_t *length);
void kf_id_without_extension(const char *text, size_t *length);

#endif
