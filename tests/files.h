/* files.h - a temporary folder and small files in it. */
#ifndef KF_TEST_FILES_H
#define KF_TEST_FILES_H

#include "test.h"

#include <unistd.h>

static const char *folder;
static kf_ctx *ctx;

static inline int make_test_folder(void **state) {
  (void)state;
  folder = test_folder();
  ctx = test_ctx(3, KF_ISA_AUTO);
  return 0;
}

static inline int remove_test_folder(void **state) {
  (void)state;
  kf_ctx_free(ctx);
  test_remove(folder);
  return 0;
}

/* The path of a file in the folder; valid for the next 63 calls. */
static inline const char *at(const char *name) {
  static char ring[64][256];
  static unsigned next;
  char *path = ring[next++ % 64];
  snprintf(path, sizeof ring[0], "%s/%s", folder, name);
  return path;
}

static inline const char *write_bytes(const char *name, const void *bytes, size_t n) {
  const char *path = at(name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
  return path;
}

static inline const char *write_text(const char *name, const char *text) {
  return write_bytes(name, text, strlen(text));
}

/* A header and then the data. */
static inline const char *write_two(const char *name, const void *head, size_t n_head,
                                    const void *data, size_t n_data) {
  AUTOFREE char *all = malloc(n_head + n_data + 1);
  assert_non_null(all);
  memcpy(all, head, n_head);
  if (n_data > 0) memcpy(all + n_head, data, n_data);
  const char *path = write_bytes(name, all, n_head + n_data);
  return path;
}

/* A .npy of version 1, 2 or 3 with any text as its header. */
static inline const char *write_npy_header(const char *name, int version, const char *dict,
                                           const void *data, size_t n) {
  char head[512] = "\x93NUMPY";
  size_t length = strlen(dict), fixed = version == 1 ? 10 : 12;
  head[6] = (char)version;
  head[8] = (char)(length & 255);
  head[9] = (char)(length >> 8);
  memcpy(head + fixed, dict, length);
  return write_two(name, head, fixed + length, data, n);
}

static inline const char *write_npy(const char *name, const char *descr, const char *shape,
                                    const void *data, size_t n) {
  char dict[256];
  snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr,
           shape);
  return write_npy_header(name, 1, dict, data, n);
}

static inline const char *write_st(const char *name, const char *json, const void *data, size_t n) {
  char head[4096];
  uint64_t length = strlen(json);
  memcpy(head, &length, 8);
  memcpy(head + 8, json, length);
  return write_two(name, head, 8 + length, data, n);
}

static inline kf_status open_one(const char *path, const kf_data_options *options, kf_data **out) {
  return kf_data_open(ctx, &path, 1, options, out);
}

static inline kf_data *must_open(const char *path, const kf_data_options *options) {
  kf_data *data = NULL;
  if (open_one(path, options, &data) != KF_OK) fail_msg("%s", kf_errmsg(ctx));
  return data;
}

/* The last call failed with this status, and its message holds both texts. */
static inline void assert_failed(kf_status actual, kf_status status, const char *file,
                                 const char *cause) {
  const char *message = kf_errmsg(ctx);
  if (actual != status || strstr(message, file) == NULL || strstr(message, cause) == NULL) {
    fail_msg("status %d (expected %d), message '%s' (expected '%s' and '%s')", actual, status,
             message, file, cause);
  }
}

/* Opening the file fails. */
static inline void assert_refused(const char *path, const kf_data_options *options,
                                  kf_status status, const char *cause) {
  kf_data *data = NULL;
  kf_status actual = open_one(path, options, &data);
  assert_null(data);
  assert_failed(actual, status, path, cause);
}

#endif
