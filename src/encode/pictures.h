/* pictures.h - what this room needs of a list of pictures besides koofu_encode.h. Private to this
 * room. */
#ifndef KF_PICTURES_H
#define KF_PICTURES_H

#include "file/file.h"

const kf_names *kf_pictures_names(const kf_pictures *pictures); /* of classes */
/* The file, or part of an archive, that holds a picture. */
kf_extent kf_pictures_extent(const kf_pictures *pictures, uint64_t i);

/* --- names for messages (picture_labels.c) ---------------------------------------------------- */

#define KF_FEW 3u

/* How many there are, and the names of the first few. */
typedef struct kf_few {
  uint64_t n;
  char shown[200];
} kf_few;
void kf_few_add(kf_few *few, const char *name);
const char *kf_few_end(const kf_few *few); /* ", ..." if there are more */

/* --- labels from a table (picture_labels.c) --------------------------------------------------- */

/* Sets the class of every picture that options->labels names, in memory of the arena; the others
 * stay NULL. Logs which are left out. No path may be there twice. */
kf_status kf_picture_labels(kf_ctx *ctx, const kf_pictures *list,
                            const kf_pictures_options *options, kf_arena *arena,
                            const char **classes);

/* --- samples of archives (archive.c) ---------------------------------------------------------- */

typedef struct kf_span {
  uint64_t at, size; /* size 0: there is none */
} kf_span;

/* A picture in an archive, with its text and JSON. */
typedef struct kf_sample {
  const char *archive;
  kf_span picture, text, json;
} kf_sample;
/* NULL: the picture is a file of its own. */
const kf_sample *kf_pictures_sample(const kf_pictures *pictures, uint64_t i);

bool kf_is_archive(const char *path);
/* Adds the pictures of an archive; the path must outlive the list. label_key: as in
 * kf_pictures_options. */
kf_status kf_archive_list(kf_ctx *ctx, kf_pictures *list, const char *path, const char *label_key,
                          kf_err *err);
/* Adds one; name and class (NULL: none) are copied. */
kf_status kf_pictures_add_sample(kf_pictures *list, const char *name, const char *class,
                                 const kf_sample *sample, kf_err *err);

/* Writes the metadata of pictures, a line of JSON for each that is not bad (metadata.c). bad: [n];
 * NULL: none is. Damaged text or JSON is KF_ERR_DATA or, with skip_bad, logged and written as
 * null. */
kf_status kf_metadata_write(kf_ctx *ctx, const kf_pictures *pictures, const unsigned char *bad,
                            bool skip_bad, const char *path, kf_err *err);

#endif
