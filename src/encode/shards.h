/* parts.h - the folder in which an embedding of many pictures keeps what is finished. Stays in its
 * room. */
#ifndef KF_ENCODE_PARTS_H
#define KF_ENCODE_PARTS_H

#include "file/file.h"

/* What a run is about: the shards of two runs that agree in all of this can stand for each other. */
typedef struct kf_parts_id {
  uint64_t pictures; /* how many */
  uint64_t list;     /* hash of their paths, labels and classes */
  uint64_t encoder;  /* checksum */
  uint32_t dim;
  kf_dtype dtype;
  bool normalize;
  uint32_t shard; /* pictures in one; the last may have fewer */
} kf_parts_id;

typedef struct kf_parts {
  kf_parts_id id;
  char *folder; /* NULL: not open */
  int lock;     /* a file in it, locked as long as it is open */
  bool begun;   /* by this run: there is nothing of an earlier one in it */
} kf_parts;

/* Opens OUT.parts, or makes it, for this process alone. KF_ERR_ARG where it is of another run, unless
 * `anew`: then what is in it goes. Nothing but our own files is ever removed. */
kf_status kf_parts_open(kf_parts *parts, const char *out, const kf_parts_id *id, bool anew,
                        kf_err *err);
/* Lets go of the folder, with all that is in it. */
void kf_parts_close(kf_parts *parts);
/* The same, but our files and, unless there are others, the folder are removed. */
void kf_parts_remove(kf_parts *parts);

uint64_t kf_parts_shards(const kf_parts *parts);
/* The pictures of shard i, from *first on. */
uint64_t kf_parts_range(const kf_parts *parts, uint64_t i, uint64_t *first);

/* A finished shard. */
typedef struct kf_piece {
  kf_st file;
  const kf_st_tensor *rows; /* [kept, dim], in the type of the run */
  uint64_t n, kept, n_messages;
  unsigned char *bad; /* [n] 1: the picture could not be read and has no row */
  char *messages;     /* [n_messages] what was said meanwhile, each with a NUL behind it */
} kf_piece;
/* Opens shard i and checks all of it, where it is there, whole, and of pictures with this `stamp` (sizes
 * and times); otherwise *there is false, and `why` says what is wrong with a file that is there. */
kf_status kf_piece_open(const kf_parts *parts, uint64_t i, uint64_t stamp, kf_piece *out,
                        bool *there, char why[KF_WHERE_SIZE], kf_err *err);
void kf_piece_close(kf_piece *part);
/* Writes shard i, whole or not at all. `rows` are those of the pictures that are not bad. */
kf_status kf_piece_save(const kf_parts *parts, uint64_t i, uint64_t stamp, const unsigned char *bad,
                        const void *rows, const kf_string *messages, kf_err *err);

#endif
