/* test_gallery_bad.c - gallery files that are damaged, invalid, or change while they are in use.
 * Rules of their contents are in test_rules.c. */
#include "world.h"

#include "files.h"
#include "search/gallery.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_unloadable(const char *path, const char *cause) {
  for (int from_disk = 0; from_disk < 2; from_disk++) {
    kf_gallery *g = NULL;
    kf_gallery_load_options options = {.rerank_from_disk = from_disk};
    kf_status status = kf_gallery_load(ctx, path, &options, &g);
    assert_null(g);
    assert_failed(status, KF_ERR_DATA, path, cause);
  }
}

/* --- files by hand --------------------------------------------------------------------------- */

#define META   "\"checksum\":\"0000000000000000\",\"format\":\"koofu.gallery\",\"version\":\"1\""
#define COSINE META ",\"metric\":\"cosine\""
#define EUCLID META ",\"metric\":\"euclidean\""
#define ROWS   "\"embeddings\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"

/* A file of the given metadata, tensors and data, with a correct checksum. */
static const char *write_sealed(const char *meta, const char *tensors, const void *data, size_t n) {
  char json[2048], digits[17];
  snprintf(json, sizeof json, "{\"__metadata__\":{%s},%s}", meta, tensors);
  const char *path = write_st("sealed.safetensors", json, data, n);
  size_t size;
  AUTOFREE char *bytes = test_read(path, &size);
  kf_checksum hash;
  kf_checksum_start(&hash);
  kf_checksum_add(&hash, bytes, size);
  snprintf(digits, sizeof digits, "%016llx", (unsigned long long)kf_checksum_value(&hash));
  char *place = memmem(bytes, size, "\"checksum\":\"", 12);
  if (place != NULL) memcpy(place + 12, digits, 16);
  write_bytes("sealed.safetensors", bytes, size);
  return path;
}

/* Two rows of two columns, and the data after them. */
typedef struct content {
  float rows[4];
  union {
    int32_t labels[2];
    int64_t ends[2];
    struct {
      double transform[4], mean[2];
    } map;
  } more;
  char bytes[8];
} content;

static const content good = {.rows = {1, 0, 0.6f, 0.8f}};

TEST(sound_by_hand) {
  kf_gallery *g;
  assert_ok(ctx, kf_gallery_load(ctx, write_sealed(COSINE, ROWS, &good, 16), NULL, &g));
  kf_gallery_free(g);
  /* Names without labels are ignored. */
  const char *path = write_sealed(COSINE ",\"classes\":\"[\\\"a\\\"]\"", ROWS, &good, 16);
  assert_ok(ctx, kf_gallery_load(ctx, path, NULL, &g));
  assert_int_equal(kf_gallery_classes(g), 0);
  kf_gallery_free(g);
}

TEST(bad_rows) {
  content c = good;
  c.rows[3] = NAN;
  assert_unloadable(write_sealed(COSINE, ROWS, &c, 16), "row 1: has a NaN");
  assert_unloadable(write_sealed(EUCLID, ROWS, &c, 16), "row 1: has a NaN");
  c.rows[3] = -INFINITY;
  assert_unloadable(write_sealed(EUCLID, ROWS, &c, 16), "row 1: has a NaN or an infinity");
  c.rows[3] = 0.9f; /* rows have any length in the original space */
  kf_gallery *g;
  assert_ok(ctx, kf_gallery_load(ctx, write_sealed(COSINE, ROWS, &c, 16), NULL, &g));
  kf_gallery_free(g);
  memset(c.rows, 0, 8);
  assert_unloadable(write_sealed(COSINE, ROWS, &c, 16), "row 0: is zero and has no direction");
  assert_ok(ctx, kf_gallery_load(ctx, write_sealed(EUCLID, ROWS, &c, 16), NULL, &g));
  kf_gallery_free(g);
}

TEST(bad_headers) {
  static const char no_checksum[] = "\"format\":\"koofu.gallery\",\"version\":\"1\"";
  static const char elsewhere[] = "\"format\":\"koofu.gallery\",\"version\":\"1\","
                                  "\"checksum\": \"0123456789abcdef\"";
  assert_unloadable(write_sealed(no_checksum, ROWS, &good, 16), "there is no checksum");
  assert_unloadable(write_sealed(elsewhere, ROWS, &good, 16), "written by another program");
  assert_unloadable(write_sealed("\"format\":\"koofu.dataset\"", ROWS, &good, 16),
                    "is a koofu data set, not a koofu gallery");
  assert_unloadable(write_sealed("\"format\":\"koofu.gallery\",\"version\":\"2\"", ROWS, &good, 16),
                    "has version 2");
  assert_unloadable(write_sealed(META, ROWS, &good, 16), "metadata 'metric'");
  assert_unloadable(write_sealed(META ",\"metric\":\"default\"", ROWS, &good, 16),
                    "metadata 'metric'");
  assert_unloadable(
      write_sealed(COSINE, "\"x\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}",
                   &good, 16),
      "no tensor 'embeddings'");
  assert_unloadable(
      write_sealed(COSINE,
                   "\"embeddings\":{\"dtype\":\"F64\",\"shape\":[2,1],\"data_offsets\":[0,16]}",
                   &good, 16),
      "wrong dtype F64");
  assert_unloadable(
      write_sealed(COSINE,
                   "\"embeddings\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}",
                   &good, 16),
      "has the shape [4]");
  assert_unloadable(
      write_sealed(COSINE,
                   "\"embeddings\":{\"dtype\":\"F32\",\"shape\":[0,2],\"data_offsets\":[0,0]}",
                   &good, 0),
      "0 rows of 2 columns");
  assert_unloadable(
      write_sealed(COSINE,
                   "\"embeddings\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[0,0]}",
                   &good, 0),
      "2 rows of 0 columns");
}

static const char *with_labels(const char *meta, int32_t a, int32_t b) {
  content c = good;
  c.more.labels[0] = a;
  c.more.labels[1] = b;
  return write_sealed(
      meta, ROWS ",\"labels\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]}", &c, 24);
}

TEST(bad_labels) {
  AUTO(kf_gallery) *g = NULL;
  assert_ok(ctx,
            kf_gallery_load(ctx, with_labels(COSINE, -1, (int32_t)KF_MAX_CLASSES - 1), NULL, &g));
  assert_int_equal(kf_gallery_classes(g), KF_MAX_CLASSES);
  assert_unloadable(with_labels(COSINE, 0, (int32_t)KF_MAX_CLASSES), "label of row 1 is 4194304");
  assert_unloadable(with_labels(COSINE ",\"classes\":\"[\\\"a\\\",\\\"a\\\"]\"", 0, 0), "twice");
  assert_unloadable(with_labels(COSINE ",\"classes\":\"7\"", 0, 0), "not a JSON list");
  content c = good;
  assert_unloadable(
      write_sealed(COSINE,
                   ROWS ",\"labels\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[16,20]}",
                   &c, 20),
      "tensor 'labels' has the shape [1]");
}

static const char *with_ids(int64_t a, int64_t b, const char *bytes, size_t n) {
  char tensors[512];
  content c = good;
  c.more.ends[0] = a;
  c.more.ends[1] = b;
  memcpy((char *)&c + 32, bytes, n);
  snprintf(tensors, sizeof tensors,
           "%s,\"id_ends\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[16,32]},"
           "\"id_bytes\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[32,%zu]}",
           ROWS, n, 32 + n);
  return write_sealed(COSINE, tensors, &c, 32 + n);
}

TEST(bad_ids) {
  AUTO(kf_gallery) *g = NULL;
  assert_ok(ctx, kf_gallery_load(ctx, with_ids(1, 3, "abc", 3), NULL, &g));
  assert_string_equal(kf_gallery_id(g, 0), "a");
  assert_string_equal(kf_gallery_id(g, 1), "bc");
  assert_null(kf_gallery_id(g, 2));
  assert_unloadable(with_ids(0, 3, "abc", 3), "id of row 0 goes from byte 0 to 0");
  assert_unloadable(with_ids(2, 1, "abc", 3), "id of row 1 goes from byte 2 to 1");
  assert_unloadable(with_ids(-1, 3, "abc", 3), "id of row 0");
  assert_unloadable(with_ids(1, 4, "abc", 3), "id of row 1 goes from byte 1 to 4 of 3");
  assert_unloadable(with_ids(INT64_MAX, INT64_MIN, "abc", 3), "id of row 0");
  assert_unloadable(with_ids(1, 3,
                             "\xC3\xA9"
                             "c",
                             3),
                    "id of row 0 is not valid UTF-8"); /* cut inside a character */
  assert_unloadable(with_ids(1, 3, "a\0c", 3), "id of row 1 is not valid UTF-8");
}

static const char *with_map(const char *meta, const content *c) {
  char all[512];
  snprintf(all, sizeof all, "%s%s", COSINE, meta);
  return write_sealed(all,
                      ROWS
                      ",\"transform\":{\"dtype\":\"F64\",\"shape\":[2,2],\"data_offsets\":[16,48]},"
                      "\"mean\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[48,64]}",
                      c, 64);
}

TEST(bad_maps) {
  static const char meta[] = ",\"normalized\":\"1\",\"centre\":\"none\",\"lambda\":\"0.5\"";
  static const char centred[] = ",\"normalized\":\"1\",\"centre\":\"mean\",\"lambda\":\"0.5\"";
  content c = good;
  c.more.map.transform[0] = c.more.map.transform[3] = 1;
  kf_gallery *g;
  assert_ok(ctx, kf_gallery_load(ctx, with_map(meta, &c), NULL, &g));
  assert_int_equal(kf_gallery_mapped(g), 1);
  kf_gallery_free(g);
  /* A text mean that overflows. */
  c.more.map.transform[0] = 1e200;
  c.more.map.transform[1] = -1e200;
  assert_ok(ctx, kf_gallery_load(ctx, with_map(centred, &c), NULL, &g));
  int64_t row;
  const kf_search_options far = {.text_mean = (const double[]){1e300, 1e300}};
  assert_ok(ctx, kf_gallery_search(ctx, g, good.rows, 1, 1, NULL, &row, NULL, NULL));
  assert_error(ctx, KF_ERR_MATH, "overflow f64",
               kf_gallery_search(ctx, g, good.rows, 1, 1, &far, &row, NULL, NULL));
  kf_gallery_free(g);
  c = good;
  c.more.map.transform[2] = 1;
  char all[512];
  snprintf(all, sizeof all, "%s%s", COSINE, meta);
  assert_unloadable(
      write_sealed(all,
                   ROWS
                   ",\"transform\":{\"dtype\":\"F64\",\"shape\":[1,3],\"data_offsets\":[16,40]},"
                   "\"mean\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[40,64]}",
                   &c, 64),
      "the map gives 1 columns, the rows have 2");
  assert_unloadable(
      write_sealed(all,
                   ROWS
                   ",\"transform\":{\"dtype\":\"F64\",\"shape\":[2,1],\"data_offsets\":[16,32]},"
                   "\"mean\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[32,40]}",
                   &c, 40),
      "invalid transform of 2 x 1");
}

/* --- damage ---------------------------------------------------------------------------------- */

static const char *write_gallery(const char *name) {
  AUTO(world) w = make_world(200, 16, 4, 1, 1);
  AUTO(kf_data) *data = NULL;
  static const char *const names[] = {"a", "b", "c", "d"};
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 16, w.labels, names, 4, &data));
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = fit(ctx, s, 0.3, 8);
  char ids[200 * 4], *end = ids;
  for (int i = 0; i < 200; i++) end += sprintf(end, "%d\n", i % 100);
  kf_gallery_options options = {.ids = write_bytes("ids.txt", ids, (size_t)(end - ids))};
  const char *path = at(name);
  assert_ok(ctx, kf_gallery_save(ctx, data, m, &options, path));
  return path;
}

TEST(cut_and_flipped) {
  const char *path = write_gallery("damaged.safetensors");
  size_t size;
  AUTOFREE char *bytes = test_read(path, &size);
  uint64_t seed = 2;
  for (int i = 0; i < 60; i++) {
    write_bytes("damaged.safetensors", bytes, (size_t)(test_random(&seed) % size));
    assert_unloadable(path, "");
  }
  for (int i = 0; i < 200; i++) {
    size_t place = (size_t)(test_random(&seed) % size);
    bytes[place] ^= (char)(1 << i % 8);
    write_bytes("damaged.safetensors", bytes, size);
    assert_unloadable(path, "");
    bytes[place] ^= (char)(1 << i % 8);
  }
  write_bytes("damaged.safetensors", bytes, size);
  AUTO(kf_gallery) *g = NULL;
  assert_ok(ctx, kf_gallery_load(ctx, path, NULL, &g));
  kf_info *info;
  bytes[size - 1] ^= 1;
  write_bytes("damaged.safetensors", bytes, size);
  assert_failed(kf_info_read(ctx, path, &info), KF_ERR_DATA, path, "damaged");
  kf_model *model;
  assert_failed(kf_model_load(ctx, path, &model), KF_ERR_DATA, path,
                "is a koofu gallery, not a koofu model");
}

/* A damaged gallery is not appended to and stays unchanged. */
TEST(append_to_damaged) {
  const char *path = write_gallery("damaged.safetensors");
  size_t size;
  AUTOFREE char *bytes = test_read(path, &size);
  bytes[size / 2] ^= 4;
  write_bytes("damaged.safetensors", bytes, size);
  write_bytes("twin.bin", bytes, size);
  AUTO(kf_data) *data = NULL;
  float row[16] = {1};
  assert_ok(ctx, kf_data_open_memory(ctx, row, 1, 16, NULL, NULL, 0, &data));
  kf_gallery_options options = {.append_to = path};
  assert_failed(kf_gallery_save(ctx, data, NULL, &options, path), KF_ERR_DATA, path, "damaged");
  assert_same_file(path, at("twin.bin"));
}

/* --- changes while in use -------------------------------------------------------------------- */

static const float query[16] = {1, 2, 3, 4};

static kf_status search(const kf_gallery *g) {
  int64_t rows[5];
  return kf_gallery_search(ctx, g, query, 1, 5, NULL, rows, NULL, NULL);
}

static kf_status search_itself(const kf_gallery *g) {
  int64_t rows[5];
  return kf_gallery_search_itself(ctx, g, 7, 1, 5, rows, NULL, NULL);
}

static kf_status classify(const kf_gallery *g) {
  int32_t class;
  return kf_gallery_classify(ctx, g, query, 1, NULL, &class, NULL, NULL);
}

static kf_status eval_itself(const kf_gallery *g) {
  kf_eval_result counts;
  kf_hits hits;
  return kf_gallery_eval(ctx, g, NULL, NULL, &counts, &hits, NULL);
}

/* Changes one byte of a row and the modification time. */
static void change(const char *path) {
  int fd = open(path, O_RDWR);
  struct stat info;
  char byte;
  assert_int_equal(fstat(fd, &info), 0);
  off_t place = info.st_size / 2;
  assert_int_equal(pread(fd, &byte, 1, place), 1);
  byte ^= 1;
  assert_int_equal(pwrite(fd, &byte, 1, place), 1);
  info.st_mtim.tv_nsec = (info.st_mtim.tv_nsec + 1) % 1000000000;
  assert_int_equal(futimens(fd, (struct timespec[]){info.st_atim, info.st_mtim}), 0);
  close(fd);
}

static void cut(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(truncate(path, info.st_size / 2), 0);
  int fd = open(path, O_RDWR); /* the size alone must show it */
  assert_int_equal(futimens(fd, (struct timespec[]){info.st_atim, info.st_mtim}), 0);
  close(fd);
}

/* The name now belongs to another file; the gallery goes on reading the old one. */
static void replace(const char *path) {
  size_t size;
  AUTOFREE char *bytes = test_read(path, &size);
  memset(bytes, 0, size);
  assert_int_equal(rename(write_bytes("zeros.bin", bytes, size), path), 0);
}

typedef kf_status (*use_fn)(const kf_gallery *gallery);
static const use_fn by_query[2] = {search, classify};
static const use_fn by_itself[2] = {search_itself, eval_itself};

static void check_after(void (*happens)(const char *path), int from_disk, bool searches,
                        bool looks_at_itself) {
  const char *path = write_gallery("changing.safetensors");
  AUTO(kf_gallery) *g = NULL;
  kf_gallery_load_options options = {.rerank_from_disk = from_disk};
  assert_ok(ctx, kf_gallery_load(ctx, path, &options, &g));
  for (int i = 0; i < 2; i++) {
    assert_ok(ctx, by_query[i](g));
    assert_ok(ctx, by_itself[i](g));
  }
  happens(path);
  for (int i = 0; i < 2; i++) {
    if (searches)
      assert_ok(ctx, by_query[i](g));
    else
      assert_failed(by_query[i](g), KF_ERR_DATA, path, "changed since it was loaded");
    if (looks_at_itself)
      assert_ok(ctx, by_itself[i](g));
    else
      assert_failed(by_itself[i](g), KF_ERR_DATA, path, "changed since it was loaded");
  }
}

TEST(changed_in_use) {
  check_after(change, 1, false, false);
  check_after(cut, 1, false, false);
  check_after(replace, 1, true, true);
  check_after(change, 0, true, false); /* queries are answered from memory */
  check_after(cut, 0, true, false);
  check_after(replace, 0, true, true);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
