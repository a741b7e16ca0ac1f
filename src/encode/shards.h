/* shards.h - the folder OUT.parts, in which kf_embed keeps finished shards. Private to this
 * room. */
#ifndef KF_ENCODE_SHARDS_H
#define KF_ENCODE_SHARDS_H

#include "file/file.h"

/* What identifies a run: runs that agree in all of this can use each other's shards. */
typedef struct kf_embed_run {
  uint64_t pictures; /* how many */
  uint64_t list;     /* checksum of their paths, labels and classes */
  uint64_t encoder;  /* checksum */
  uint32_t dim;
  kf_dtype dtype;
  bool normalize;
  uint32_t shard_size; /* pictures; the last shard may have fewer */
} kf_embed_run;

uint64_t kf_shards_count(const kf_embed_run *run);
/* The pictures of shard i, from *first on. */
uint64_t kf_shards_range(const kf_embed_run *run, uint64_t i, uint64_t *first);

typedef struct kf_shards {
  kf_embed_run run;
  kf_arena memory;
  const char *folder, *manifest, *lock; /* paths; folder NULL: not open */
  char *path;                           /* room for the path of a shard */
  int locked;                           /* the lock file; -1: none */
  bool made_lock;                       /* this run has created the lock file */
  bool begun; /* this run has begun the folder, so it holds nothing of an earlier run */
} kf_shards;

/* Opens or creates OUT.parts for this process alone; a symbolic link is refused. KF_ERR_ARG if it
 * belongs to another run; with `anew`, removes the files of that run. Never removes other files. */
kf_status kf_shards_open(kf_shards *shards, const char *out, const kf_embed_run *run, bool anew,
                         kf_err *err);
/* The same on the other ranks, once rank 0 has opened it. */
kf_status kf_shards_follow(kf_shards *shards, const char *out, const kf_embed_run *run,
                           kf_err *err);
/* Releases the folder, and leaves its contents. */
void kf_shards_close(kf_shards *shards);
/* The same, but removes the files of the run and, if it is then empty, the folder. */
void kf_shards_remove(kf_shards *shards);

/* A finished shard. */
typedef struct kf_finished {
  kf_st file;
  kf_arena memory;
  const kf_st_tensor *rows; /* [kept, dim], in the type of the run */
  uint64_t n, kept, n_messages;
  unsigned char *bad; /* [n] 1: the picture could not be read and has no row */
  uint64_t *sums;     /* [n] checksums of the pictures */
  char *messages;     /* [n_messages] logged while it was made, a NUL after each message */
} kf_finished;
/* Opens shard i and checks all of it. *found is false if it does not exist, is damaged, or has
 * another `stamp` (of the sizes and times of its pictures); `why` then says what is wrong with the
 * file, and is empty if there is none. */
kf_status kf_shards_find(const kf_shards *shards, uint64_t i, uint64_t stamp, kf_finished *out,
                         bool *found, char why[KF_WHERE_SIZE], kf_err *err);
void kf_finished_close(kf_finished *shard);
/* What kf_shards_save writes. */
typedef struct kf_shard_content {
  uint64_t stamp;
  const unsigned char *bad; /* [n] */
  const uint64_t *sums;     /* [n] */
  const void *rows;         /* of the pictures that are not bad */
  const kf_string *messages;
} kf_shard_content;
/* Writes shard i, whole or not at all. */
kf_status kf_shards_save(const kf_shards *shards, uint64_t i, const kf_shard_content *content,
                         kf_err *err);

#endif
