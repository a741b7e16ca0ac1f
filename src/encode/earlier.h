/* earlier.h - the rows that an earlier run of kf_embed left in its output. Private to this room. */
#ifndef KF_ENCODE_EARLIER_H
#define KF_ENCODE_EARLIER_H

#include "file/file.h"

/* Metadata like KF_MADE_WITH: a checksum of the ids, labels and classes of all pictures. */
#define KF_MADE_OF "made_of"

typedef struct kf_earlier {
  kf_st file;
  const kf_st_tensor *rows; /* NULL: there is nothing to reuse */
  uint64_t n;
  uint64_t *sums; /* [n] checksums of the pictures */
  kf_dict *map;   /* of the sums, to rows */
  bool same_list;
  kf_origin origin;
  kf_arena memory;
} kf_earlier;

/* Opens the file of an earlier run if there is one, and reads its checksums if it was made with the
 * same encoder and settings. Any other file is ignored. */
kf_status kf_earlier_open(kf_earlier *earlier, const char *path, uint64_t made_with,
                          uint64_t made_of, uint32_t dim, kf_type type, kf_err *err);
void kf_earlier_close(kf_earlier *earlier); /* may be called twice */
/* The row of a picture with these bytes; false: there is none. */
bool kf_earlier_find(const kf_earlier *earlier, uint64_t sum, uint64_t *row);
/* Copies a row as it is in the file. */
kf_status kf_earlier_read(const kf_earlier *earlier, uint64_t row, void *to, kf_err *err);

/* The checksums of pictures, as of kf_image_read_sum: sums[pictures]. Progress is "check". */
kf_status kf_sum_pictures(kf_ctx *ctx, const kf_pictures *pictures, uint64_t *sums);

#endif
