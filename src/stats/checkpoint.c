/* checkpoint.c - statistics that survive an interrupted run.
 *
 * The rows are divided into pieces by their numbers. Each rank adds its pieces one after the other
 * and now and then writes its sums to its own statistics file, which lists the pieces it covers. A
 * later run adds every file it finds and divides the pieces that no file covers among its ranks,
 * however many there are. Statistics are sums of integers, so the bits are the same.
 *
 * The name of a file contains a checksum of everything that the sums depend on (sizes and dates of
 * the data files, classes, units), so a file from other data is never used. Then comes the number
 * of the first piece it covers: no two files begin with the same piece, and a rank replaces its own
 * file as it continues. */
#include "stats/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_PIECES  1024u
#define LEAST_PIECES 16u
#define PIECE_ROWS   16384u /* the usual size; smaller pieces are less efficient */
#define PIECE_STEP   64u
#define WRITE_EVERY  10.0 /* times as long as writing a file takes */

typedef struct plan {
  kf_ctx *ctx;
  kf_stats *stats;
  const kf_data *data;
  const char *folder;
  uint64_t key;
  uint64_t rows;       /* of a piece */
  uint32_t n;          /* pieces */
  unsigned char *done; /* [n] 1: covered by a file, which rank 0 has added to `stats` */
  uint32_t *left;      /* [n_left] the other pieces */
  uint32_t n_left;
  kf_stats *own;      /* of the pieces of this rank */
  uint32_t first;     /* the first of these pieces */
  kf_string covers;   /* the numbers of these pieces */
  double wrote, cost; /* when the file was last written, and how long it took */
  kf_arena arena;
} plan;

/* --- pieces ----------------------------------------------------------------------------------- */

static uint64_t piece_rows(uint64_t rows) {
  uint64_t usual = rows / LEAST_PIECES < PIECE_ROWS ? rows / LEAST_PIECES : PIECE_ROWS;
  uint64_t each = rows / MOST_PIECES > usual ? rows / MOST_PIECES : usual;
  return (each / PIECE_STEP + 1) * PIECE_STEP;
}

static uint64_t key_of(const plan *p) {
  kf_checksum sum;
  const kf_stats *s = p->stats;
  const uint64_t numbers[] = {p->data->rows,
                              p->rows,
                              s->dim,
                              s->n_classes,
                              s->normalized,
                              p->data->skip_bad,
                              (uint64_t)(int64_t)s->exponent};
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, numbers, sizeof numbers);
  for (uint32_t k = 0; k < s->names.n; k++)
    kf_checksum_add(&sum, s->names.name[k], strlen(s->names.name[k]) + 1);
  p->data->identify(p->data, &sum);
  return kf_checksum_value(&sum);
}

/* Reads a decimal number below n. */
static bool take_number(const char **text, uint32_t n, uint32_t *out) {
  uint64_t value = 0;
  const char *at = *text;
  for (; *at >= '0' && *at <= '9' && value < n; at++) value = value * 10 + (uint64_t)(*at - '0');
  *out = (uint32_t)value;
  bool found = at > *text && value < n;
  *text = at;
  return found;
}

/* Marks the pieces listed in a text such as "0-3,7-7". False if it is malformed or a piece is
 * already marked. */
static bool mark_covered(const char *text, uint32_t n, unsigned char *done) {
  while (*text != '\0') {
    uint32_t first = 0, last = 0;
    if (!take_number(&text, n, &first) || *text++ != '-' || !take_number(&text, n, &last) ||
        last < first)
      return false;
    for (uint32_t i = first; i <= last; i++) {
      if (done[i]) return false;
      done[i] = 1;
    }
    if (*text == ',') text++;
  }
  return true;
}

/* --- files of earlier runs -------------------------------------------------------------------- */

static bool is_of_this_run(const plan *p, const char *name) {
  char start[64];
  int n = snprintf(start, sizeof start, "stats-%016" PRIx64 "-", p->key);
  size_t length = strlen(name);
  return strncmp(name, start, (size_t)n) == 0 && kf_format_of(name) == KF_FORMAT_SAFETENSORS &&
         length > (size_t)n;
}

/* Adds a file. A damaged or overlapping one is ignored, and its rows are read again. */
static kf_status take_file(plan *p, const char *path) {
  kf_err why = {0};
  char *covers = NULL;
  kf_stats *s = NULL;
  unsigned char *done = kf_alloc(p->n, 1);
  if (done == NULL) return kf_fail_memory(&p->ctx->err);
  memcpy(done, p->done, p->n);
  kf_status status = kf_stats_read_part(path, &covers, &s, &why);
  bool fits = status == KF_OK && s->dim == p->stats->dim && s->n_classes == p->stats->n_classes;
  if (fits && mark_covered(covers, p->n, done)) {
    kf_stats_add_same(p->stats, s);
    memcpy(p->done, done, p->n);
  } else if (status != KF_ERR_MEM) {
    kf_log(p->ctx, "%s: ignored: %s", path,
           status != KF_OK ? why.message : "it overlaps the other files or is of other data");
    status = KF_OK;
  }
  if (status != KF_OK) p->ctx->err = why;
  kf_free(done);
  kf_free(covers);
  kf_stats_free(s);
  return status;
}

static kf_status take_files(plan *p) {
  kf_err *err = &p->ctx->err;
  if (mkdir(p->folder, 0777) != 0 && errno != EEXIST)
    return kf_fail_errno(err, p->folder, "cannot be created", errno);
  DIR *folder = opendir(p->folder);
  if (folder == NULL) return kf_fail_errno(err, p->folder, "cannot be opened", errno);
  const struct dirent *entry = NULL;
  kf_status status;
  while ((status = kf_next_entry(folder, p->folder, &entry, err)) == KF_OK && entry != NULL) {
    if (!is_of_this_run(p, entry->d_name)) continue;
    char *path = kf_path_join(p->folder, entry->d_name);
    status = path != NULL ? take_file(p, path) : kf_fail_memory(err);
    kf_free(path);
    if (status != KF_OK) break;
  }
  closedir(folder);
  return status;
}

/* --- this run --------------------------------------------------------------------------------- */

static kf_status write_own(plan *p) {
  kf_err *err = &p->ctx->err;
  char name[64];
  snprintf(name, sizeof name, "stats-%016" PRIx64 "-%" PRIu32 ".safetensors", p->key, p->first);
  char *path = kf_path_join(p->folder, name);
  if (path == NULL) return kf_fail_memory(err);
  double begun = kf_now();
  kf_status status = kf_stats_write_part(path, p->own, p->covers.data, err);
  p->wrote = kf_now();
  p->cost = p->wrote - begun;
  kf_free(path);
  return status;
}

static kf_status add_pieces(plan *p, const char *what) {
  kf_range own = kf_share_of(&p->ctx->ranks, p->n_left, 1);
  bool written = true;
  p->wrote = kf_now();
  for (uint64_t i = own.first; i < own.last; i++) {
    uint32_t piece = p->left[i];
    uint64_t first = piece * p->rows, last = first + p->rows;
    if (last > p->data->rows) last = p->data->rows;
    KF_TRY(kf_stats_accumulate_range(p->ctx, p->own, p->data, (kf_range){first, last}, what));
    if (i == own.first) p->first = piece;
    kf_string_addf(&p->covers, "%s%u-%u", i > own.first ? "," : "", piece, piece);
    if (p->covers.failed) return kf_fail_memory(&p->ctx->err);
    written = kf_now() - p->wrote > WRITE_EVERY * p->cost;
    if (written) KF_TRY(write_own(p));
  }
  return written ? KF_OK : write_own(p);
}

/* Logs and returns the number of rows that files cover. */
static uint64_t log_found(const plan *p) {
  uint64_t rows = 0;
  for (uint32_t i = 0; i < p->n; i++)
    if (p->done[i]) rows += i + 1 < p->n ? p->rows : p->data->rows - (uint64_t)(p->n - 1) * p->rows;
  if (rows > 0)
    kf_log(p->ctx, "%s: has the statistics of %" PRIu64 " of %" PRIu64 " rows", p->folder, rows,
           p->data->rows);
  return rows;
}

static kf_status prepare(plan *p) {
  kf_err *err = &p->ctx->err;
  const kf_stats *s = p->stats;
  p->rows = piece_rows(p->data->rows);
  p->n = (uint32_t)((p->data->rows + p->rows - 1) / p->rows);
  p->key = key_of(p);
  KF_TAKE_ZERO(&p->arena, p->done, p->n);
  KF_TAKE(&p->arena, p->left, p->n);
  if (p->arena.failed) return kf_fail_memory(err);
  KF_TRY(
      kf_stats_create(s->dim, s->n_classes, &s->names, s->normalized, s->exponent, &p->own, err));
  p->own->origin = s->origin;
  return KF_OK;
}

static kf_status accumulate(plan *p, const char *what) {
  kf_ctx *ctx = p->ctx;
  kf_status status = prepare(p);
  if (status == KF_OK && ctx->ranks.rank == 0) status = take_files(p);
  KF_TRY(kf_take_from_first(ctx, status, p->done, p->n));
  for (uint32_t i = 0; i < p->n; i++)
    if (!p->done[i]) p->left[p->n_left++] = i;
  uint64_t found = log_found(p);
  kf_share_begin(ctx, ctx->ranks.rank == 0 ? found : 0);
  KF_TRY(kf_agree_on(ctx, add_pieces(p, what)));
  kf_stats_add_same(p->stats, p->own);
  return kf_stats_add_ranks(ctx, KF_OK, p->stats);
}

kf_status kf_stats_accumulate_kept(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                                   const char *folder, const char *what) {
  if (data->identify == NULL)
    return kf_fail(&ctx->err, KF_ERR_ARG, "checkpoints are for rows in files");
  plan p = {.ctx = ctx, .stats = stats, .data = data, .folder = folder};
  kf_status status = accumulate(&p, what);
  kf_stats_free(p.own);
  kf_string_clear(&p.covers);
  kf_arena_free(&p.arena);
  return status;
}
