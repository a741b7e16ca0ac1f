/* test_huggingface.c - class names in the metadata of Hugging Face's .parquet files: good ones, and
 * hostile. */
#include "file/parquet.h"
#include "test.h"

#include <string.h>

/* What the metadata say about a column. */
static kf_status names_of(const char *metadata, const char *column, kf_names *names, kf_err *err) {
  const char *keys[] = {"pandas", "huggingface"}, *values[] = {"{", metadata};
  kf_in in = {.fd = -1, .path = "x.parquet"};
  kf_pq pq = {.in = &in, .n_meta = 2, .keys = keys, .values = values};
  *names = (kf_names){0};
  return kf_hf_names(&pq, column, names, err);
}

static void expect(const char *metadata, const char *column, const char *const *wanted,
                   uint32_t n) {
  kf_names names;
  kf_err err;
  assert_int_equal(names_of(metadata, column, &names, &err), KF_OK);
  assert_int_equal(names.n, n);
  for (uint32_t k = 0; k < n; k++) assert_string_equal(names.name[k], wanted[k]);
  kf_names_clear(&names);
}

#define FEATURES(text) "{\"info\": {\"features\": {" text "}}, \"fingerprint\": \"x\"}"
#define LABEL(names)   "{\"names\": " names ", \"_type\": \"ClassLabel\"}"

TEST(good) {
  static const char *const names[] = {"cat", "d\xC3\xB6g", "red \"fox\""};
  static const char text[] = "{\"info\": {\"features\": {"
                             "\"img\": {\"_type\": \"Image\"},"
                             "\"label\": {\"_type\": \"ClassLabel\","
                             "  \"names\": [\"cat\", \"d\\u00f6g\", \"red \\\"fox\\\"\"]},"
                             "\"a\": {\"b\": {\"_type\": \"ClassLabel\", \"names\": [\"cat\"]},"
                             "  \"n\": {\"dtype\": \"int64\", \"_type\": \"Value\"}},"
                             "\"a.b\": {\"_type\": \"ClassLabel\", \"names\": [\"whole\"]}}}}";
  static const char *const whole[] = {"whole"};
  expect(text, "label", names, 3);
  expect(text, "a.b", whole, 1); /* a name with a dot comes first */
  expect(FEATURES("\"a\": {\"b\": " LABEL("[\"cat\"]") "}"), "a.b", names, 1);
  /* The metadata do not mention these. */
  static const char *const none[] = {"img",   "other", "a", "a.n", "a.c",   "label.b",
                                     "a.b.c", "",      ".", "lab", "labels"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) expect(text, none[i], NULL, 0);
  static const char *const silent[] = {"{}",
                                       "[]",
                                       "3",
                                       "\"x\"",
                                       "{\"info\": 3}",
                                       "{\"info\": {\"features\": []}}",
                                       "{\"info\": {\"features\": {\"label\": \"ClassLabel\"}}}",
                                       FEATURES("\"label\": {\"_type\": 3, \"names\": [\"a\"]}"),
                                       FEATURES("\"label\": {\"names\": [\"a\"]}"),
                                       FEATURES("\"label\": " LABEL("null")),
                                       FEATURES("\"label\": {\"_type\": \"ClassLabel\"}")};
  for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) expect(silent[i], "label", NULL, 0);
}

static void refused(const char *metadata, const char *naming) {
  kf_names names;
  kf_err err;
  assert_int_equal(names_of(metadata, "label", &names, &err), KF_ERR_DATA);
  assert_int_equal(names.n, 0);
  assert_null(names.name);
  if (strstr(err.message, naming) == NULL || strncmp(err.message, "x.parquet", 9) != 0)
    fail_msg("'%s' does not say '%s'", err.message, naming);
}

TEST(hostile) {
  refused("", "metadata 'huggingface'");
  refused("{\"info\": {\"features\": {\"label\": ", "metadata 'huggingface'");
  refused("{} x", "metadata 'huggingface'");
  refused(FEATURES("\"label\": 1, \"label\": " LABEL("[\"a\"]")), "label"); /* twice */
  refused(FEATURES("\"label\": " LABEL("\"a\"")), "are not a list");
  refused(FEATURES("\"label\": " LABEL("{\"a\": 1}")), "are not a list");
  refused(FEATURES("\"label\": " LABEL("[]")), "are not a list");
  refused(FEATURES("\"label\": " LABEL("[\"a\", 3]")), "are not all text");
  refused(FEATURES("\"label\": " LABEL("[\"a\", \"\"]")), "are not all text");
  refused(FEATURES("\"label\": " LABEL("[\"a\", null]")), "are not all text");
  refused(FEATURES("\"label\": " LABEL("[\"a\", \"b\", \"a\"]")), "'a'"); /* twice */
  refused(FEATURES("\"label\": " LABEL("[\"a\\u0000b\"]")), "metadata 'huggingface'");
  refused(FEATURES("\"label\": " LABEL("[\"\xFF\"]")), "metadata 'huggingface'");
  /* Endlessly nested lists, and more values than the limit. */
  enum { LONG = 1 << 20 };
  AUTOFREE char *text = malloc(LONG + 1);
  assert_non_null(text);
  memset(text, '[', LONG);
  text[LONG] = '\0';
  refused(text, "metadata 'huggingface'");
  memcpy(text, "[1", 2);
  for (size_t i = 2; i + 2 <= LONG - 2; i += 2) memcpy(text + i, ",1", 2);
  memcpy(text + LONG - 2, "1]", 3);
  refused(text, "metadata 'huggingface'");
}
