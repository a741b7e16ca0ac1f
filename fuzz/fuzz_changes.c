/* A gallery with one or two changes beside it. If it loads, it must answer a query, a range search
 * and a vote, open as a data set, and stay the same when it is compacted.
 *
 * The two lowest bits of the first byte choose the gallery; unless the byte has bit 4, the
 * checksums that tie a change to its predecessor are corrected. The next two bytes are the length
 * of the first change; the rest, if any, is the second. */
#include "fuzz.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KINDS = 4, AS_THEY_ARE = 4, ROWS = 3, DIM = 2, QUERIES = 2, MOST = 8, LARGEST = 1 << 14 };

static const char live[] = "live.safetensors";
static const float queries[QUERIES * DIM] = {1, 0.5f, -0.25f, 1};

typedef struct bytes {
  uint8_t data[LARGEST];
  size_t size;
} bytes;

/* --- galleries -------------------------------------------------------------------------------- */

/* Rows alone; with classes; with classes and ids; in f16 with ids. */
static void make(kf_ctx *ctx, int kind, bytes *out) {
  static const float rows[ROWS * DIM] = {1, 0, 0.5f, 0.75f, 0, -1};
  static const int32_t labels[ROWS] = {1, KF_LABEL_NONE, 0};
  static const char *const names[] = {"cat", "d\xc3\xb6g"};
  int labelled = kind == 1 || kind == 2;
  kf_gallery_options options = {.metric = kind == 2   ? KF_METRIC_EUCLIDEAN
                                          : kind == 3 ? KF_METRIC_INNER
                                                      : KF_METRIC_COSINE,
                                .ids = kind >= 2 ? fuzz_write("ids.txt", "a\nb\nc\n", 6) : NULL,
                                .dtype = kind == 3 ? KF_F16 : KF_F32};
  const char *path = fuzz_path(live);
  kf_data *data;
  if (kf_data_open_memory(ctx, rows, ROWS, DIM, labelled ? labels : NULL, labelled ? names : NULL,
                          labelled ? 2 : 0, &data) != KF_OK ||
      kf_gallery_save(ctx, data, NULL, &options, path) != KF_OK)
    abort();
  kf_data_free(data);
  FILE *file = fopen(path, "rb");
  if (file == NULL) abort();
  out->size = fread(out->data, 1, sizeof out->data, file);
  fclose(file);
}

/* --- checksums -------------------------------------------------------------------------------- */

/* The 16 digits after a metadata key such as "base":"; NULL: there are none. */
static uint8_t *digits_of(bytes *file, const char *key) {
  uint8_t *at = memmem(file->data, file->size, key, strlen(key));
  size_t end = at != NULL ? (size_t)(at - file->data) + strlen(key) : file->size;
  return file->size - end >= 16 ? file->data + end : NULL;
}

static void set(bytes *file, const char *key, const char *digits) {
  uint8_t *at = digits_of(file, key);
  if (at != NULL) memcpy(at, digits, 16);
}

static void get(bytes *file, const char *key, char digits[17]) {
  const uint8_t *at = digits_of(file, key);
  memset(digits, '0', 16);
  if (at != NULL) memcpy(digits, at, 16);
  digits[16] = '\0';
}

static void set_checksum(bytes *file) {
  static const char key[] = "\"checksum\":\"";
  char digits[17];
  kf_checksum hash;
  set(file, key, "0000000000000000");
  kf_checksum_start(&hash);
  kf_checksum_add(&hash, file->data, file->size);
  snprintf(digits, sizeof digits, "%016llx", (unsigned long long)kf_checksum_value(&hash));
  set(file, key, digits);
}

/* --- files ------------------------------------------------------------------------------------ */

static char folder[600], change_paths[2][700];

static void write_file(const char *path, const bytes *content) {
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(content->data, 1, content->size, file) != content->size ||
      fclose(file) != 0)
    abort();
}

/* base: the checksum of the gallery. */
static void write_changes(const char *base, bytes changes[2], int n, int as_they_are) {
  char previous[17];
  memcpy(previous, base, sizeof previous);
  snprintf(folder, sizeof folder, "%s.changes", fuzz_path(live));
  if (mkdir(folder, 0700) != 0) abort();
  for (int i = 0; i < n; i++) {
    if (!as_they_are) {
      set(&changes[i], "\"base\":\"", base);
      set(&changes[i], "\"previous\":\"", previous);
    }
    set_checksum(&changes[i]);
    get(&changes[i], "\"checksum\":\"", previous);
    snprintf(change_paths[i], sizeof change_paths[i], "%s/%s-%06d.safetensors", folder, base,
             i + 1);
    write_file(change_paths[i], &changes[i]);
  }
}

static void remove_changes(void) {
  for (int i = 0; i < 2; i++) unlink(change_paths[i]);
  rmdir(folder);
}

/* --- what loads ------------------------------------------------------------------------------- */

typedef struct answers {
  uint64_t rows, within;
  uint32_t k;
  int64_t row[QUERIES * MOST];
  double score[QUERIES * MOST];
  int32_t class[QUERIES];
} answers;

static void ask(kf_ctx *ctx, const kf_gallery *gallery, answers *out) {
  memset(out, 0, sizeof *out);
  kf_ranges *ranges;
  out->rows = kf_gallery_rows(gallery);
  out->k = out->rows < MOST ? (uint32_t)out->rows : MOST;
  if (kf_gallery_search(ctx, gallery, queries, QUERIES, out->k, NULL, out->row, out->score, NULL) !=
      KF_OK)
    abort();
  kf_gallery_classify(ctx, gallery, queries, QUERIES, &(kf_vote_options){.k = 1}, out->class, NULL,
                      NULL);
  if (kf_gallery_within(ctx, gallery, queries, QUERIES, 0.5, NULL, &ranges, NULL) != KF_OK) abort();
  out->within = ranges->ends[QUERIES - 1];
  kf_ranges_free(ranges);
}

static bool same_answers(const answers *a, const answers *b) {
  return a->rows == b->rows && a->within == b->within &&
         memcmp(a->row, b->row, sizeof a->row) == 0 &&
         memcmp(a->class, b->class, sizeof a->class) == 0 &&
         memcmp((const char *)a->score, (const char *)b->score, sizeof a->score) == 0;
}

/* The same rows, by labels and ids. */
static void compare(const kf_gallery *a, const kf_gallery *b) {
  for (uint64_t i = 0; i < kf_gallery_rows(a); i++) {
    const char *id = kf_gallery_id(a, i), *other = kf_gallery_id(b, i);
    if (kf_gallery_label(a, i) != kf_gallery_label(b, i)) abort();
    if ((id == NULL) != (other == NULL) || (id != NULL && strcmp(id, other) != 0)) abort();
    if (kf_gallery_label(a, i) >= (int64_t)kf_gallery_classes(a)) abort();
  }
}

static void use(kf_ctx *ctx, const char *path) {
  kf_gallery *changed, *whole;
  kf_info *info;
  answers before, from_disk, after;
  fuzz_read_data(ctx, path, &(kf_data_options){0});
  if (kf_gallery_load(ctx, path, NULL, &changed) != KF_OK) return;
  ask(ctx, changed, &before);
  kf_gallery_load_options options = {.rerank_from_disk = 1};
  if (kf_gallery_load(ctx, path, &options, &whole) != KF_OK) abort();
  ask(ctx, whole, &from_disk);
  kf_gallery_free(whole);
  if (kf_info_read(ctx, path, &info) != KF_OK) abort();
  kf_info_free(info);
  if (kf_gallery_compact(ctx, path, NULL) != KF_OK) abort();
  if (access(folder, F_OK) == 0 || kf_gallery_load(ctx, path, NULL, &whole) != KF_OK) abort();
  ask(ctx, whole, &after);
  compare(changed, whole);
  if (!same_answers(&before, &from_disk) || !same_answers(&before, &after)) abort();
  kf_gallery_free(whole);
  kf_gallery_free(changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bytes galleries[KINDS], changes[2];
  static int made;
  kf_ctx *ctx;
  kf_ctx_options options = {.threads = 1, .isa = KF_ISA_PLAIN};
  if (size < 3 || size > LARGEST) return 0;
  if (kf_ctx_new(&options, &ctx) != KF_OK) abort();
  for (; made < KINDS; made++) make(ctx, made, &galleries[made]);
  size_t length = data[1] | (size_t)data[2] << 8;
  changes[0].size = length < size - 3 ? length : size - 3;
  changes[1].size = size - 3 - changes[0].size;
  memcpy(changes[0].data, data + 3, changes[0].size);
  memcpy(changes[1].data, data + 3 + changes[0].size, changes[1].size);
  bytes *gallery = &galleries[data[0] % KINDS];
  char base[17];
  get(gallery, "\"checksum\":\"", base);
  const char *path = fuzz_write(live, gallery->data, gallery->size);
  write_changes(base, changes, changes[1].size > 0 ? 2 : 1, data[0] & AS_THEY_ARE);
  use(ctx, path);
  remove_changes();
  kf_ctx_free(ctx);
  return 0;
}
