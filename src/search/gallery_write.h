/* gallery_write.h - shared by writing a gallery and writing a change of one. Stays in this room. */
#ifndef KF_GALLERY_WRITE_H
#define KF_GALLERY_WRITE_H

#include "search/gallery.h"

typedef struct kf_gallery_writer {
  kf_ctx *ctx;
  const kf_data *data; /* the new rows; NULL: none */
  kf_gallery *old;     /* its rows come first; NULL: none */
  kf_space space;
  uint32_t k; /* neighbours that should vote; 0: unknown */
  kf_save_spec spec;
  kf_names names; /* of all classes, if there is an old gallery */
  kf_origin origin;
  int32_t *number; /* [data classes] their numbers in the file; NULL: as in the data set */
  kf_saver *rows;
  kf_string id_bytes;      /* of the new rows */
  int64_t *id_ends;        /* [kept rows] in the file; NULL: no ids */
  int64_t id_begin;        /* where the first of them begins there */
  uint64_t n_lines, n_ids; /* of the file with ids: lines read, ids kept */
  const char *ids;         /* its name */
  bool own_ids;            /* ids come from the data */
  kf_guard guard;          /* of the old gallery, if it is changed; otherwise fd is -1 */
  bool again;              /* add the batch even if it is there already */
  bool replace;            /* remove rows with the same ids */
  bool repeated;           /* out: the batch was there already */
  kf_gallery_change done;
  kf_checksum batch;
  kf_stw *file;
  kf_arena arena;
} kf_gallery_writer;

/* --- gallery_save.c --------------------------------------------------------------------------- */

/* Checks the options; sets the space, the origin and the classes of the new rows. */
kf_status kf_writer_start(kf_gallery_writer *w, const kf_model *model, const kf_gallery_options *o,
                          kf_err *err);
/* Makes the saver and reads the ids of the new rows. path: the file that is written. */
kf_status kf_writer_begin_rows(kf_gallery_writer *w, const char *path, kf_err *err);
uint64_t kf_writer_rows(const kf_gallery_writer *w); /* new ones */
/* Write the new rows and their labels, and add them to the checksum `batch`. */
kf_status kf_writer_put_rows(kf_gallery_writer *w);
kf_status kf_writer_put_labels(kf_gallery_writer *w);
/* The checksum of the batch, once it is written. Sets `repeated` and logs it. */
uint64_t kf_writer_end_batch(kf_gallery_writer *w);
/* Frees everything. */
void kf_writer_clear(kf_gallery_writer *w);

/* --- gallery_change.c ------------------------------------------------------------------------- */

/* Opens a gallery and locks it against other writers. */
kf_status kf_writer_lock(kf_gallery_writer *w, const char *path, kf_gallery_depth depth,
                         bool verify, kf_err *err);
/* Adds the rows of w->data to the gallery at `path`; there must be no model. */
kf_status kf_writer_append(kf_gallery_writer *w, const kf_model *model, const kf_gallery_options *o,
                           const char *path, kf_err *err);

#endif
