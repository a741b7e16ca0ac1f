/* test_json.c - the JSON of file headers: what it accepts, what it refuses, and numbers in any
 * locale. */
#include "test.h"

#include "base/json.h"

#include <float.h>
#include <locale.h>
#include <math.h>

static kf_status parse_all(kf_json_doc *doc, const char *text, size_t length, kf_err *err) {
  char *copy = kf_alloc(length + 1, 1);
  assert_non_null(copy);
  memcpy(copy, text, length);
  copy[length] = '\0';
  *err = (kf_err){0};
  return kf_json_take(doc, copy, length, KF_JSON_VALUES, "it", err);
}

static kf_status parse(kf_json_doc *doc, const char *text, kf_err *err) {
  return parse_all(doc, text, strlen(text), err);
}

TEST(values) {
  kf_json_doc doc;
  kf_err err;
  const char *text =
      " { \"a\" : [ 1 , -20, 9223372036854775807 ],\n\"b\":{\"c\":\"x\"}, \"d\":true,"
      "\"e\":null,\"f\":1.5e3,\"\":[] ,\"g\":{}} ";
  assert_int_equal(parse(&doc, text, &err), KF_OK);
  const kf_json *root = &doc.nodes[0], *list = kf_json_get(&doc, root, "a");
  assert_true(root->kind == KF_JSON_OBJECT && root->count == 7);
  assert_true(list->kind == KF_JSON_LIST && list->count == 3);
  const int64_t want[] = {1, -20, INT64_MAX};
  size_t n = 0;
  for (const kf_json *i = kf_json_first(&doc, list); i != NULL; i = kf_json_next(&doc, i)) {
    int64_t value;
    assert_true(kf_json_i64(i, &value));
    assert_true(value == want[n++]);
  }
  assert_int_equal(n, 3);
  const kf_json *c = kf_json_get(&doc, kf_json_get(&doc, root, "b"), "c");
  assert_string_equal(kf_json_string(c), "x");
  assert_int_equal(kf_json_get(&doc, root, "d")->kind, KF_JSON_BOOL);
  assert_int_equal(kf_json_get(&doc, root, "e")->kind, KF_JSON_NULL);
  int64_t whole;
  assert_false(kf_json_i64(kf_json_get(&doc, root, "f"), &whole));
  assert_false(kf_json_i64(NULL, &whole));
  assert_null(kf_json_get(&doc, root, "z"));
  assert_null(kf_json_get(&doc, list, "a"));
  assert_null(kf_json_string(list));
  assert_int_equal(kf_json_get(&doc, root, "")->count, 0);
  kf_json_clear(&doc);
}

TEST(strings) {
  kf_json_doc doc;
  kf_err err;
  assert_int_equal(parse(&doc, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\ude00é\"", &err),
                   KF_OK);
  assert_string_equal(doc.nodes[0].text, "\"\\/\b\f\n\r\té€😀é");
  /* What is written comes back. */
  kf_string out = {0};
  kf_string_add_json(&out, doc.nodes[0].text);
  kf_json_doc again;
  assert_int_equal(parse(&again, out.data, &err), KF_OK);
  assert_string_equal(again.nodes[0].text, doc.nodes[0].text);
  kf_string_clear(&out);
  kf_json_clear(&again);
  kf_json_clear(&doc);
}

TEST(refused) {
  const char *const bad[] = {"",
                             "{",
                             "}",
                             "[1,]",
                             "[1 2]",
                             "{\"a\"}",
                             "{\"a\":}",
                             "{a:1}",
                             "{\"a\":1,}",
                             "[01]",
                             "[1.]",
                             "[.5]",
                             "[1e]",
                             "[+1]",
                             "[-]",
                             "tru",
                             "nul",
                             "\"",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\u0000\"",
                             "\"\\ud800\"",
                             "\"\\udc00\"",
                             "\"\\ud800\\u0041\"",
                             "\"\n\"",
                             "1 2",
                             "{} {}",
                             "\"\xff\"",
                             "\"\xc0\x80\"",
                             "[\"a]",
                             "{\"a\":1,\"a\":2}",
                             "'a'",
                             "NaN",
                             "Infinity"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kf_json_doc doc;
    kf_err err;
    if (parse(&doc, bad[i], &err) != KF_ERR_DATA) fail_msg("taken: %s", bad[i]);
    assert_true(strncmp(err.message, "it ", 3) == 0);
  }
  kf_json_doc doc;
  kf_err err;
  assert_int_equal(parse_all(&doc, "{}\0", 3, &err), KF_ERR_DATA); /* NUL after the end */
  assert_int_equal(parse_all(&doc, "\"a\0b\"", 5, &err), KF_ERR_DATA);
}

TEST(limits) {
  char deep[200];
  kf_json_doc doc;
  kf_err err;
  for (int depth = 63; depth <= 66; depth++) {
    memset(deep, '[', (size_t)depth);
    memset(deep + depth, ']', (size_t)depth);
    deep[2 * depth] = '\0';
    assert_int_equal(parse(&doc, deep, &err), depth <= 64 ? KF_OK : KF_ERR_DATA);
    kf_json_clear(&doc);
  }
  /* Many keys, the last one a duplicate of the first. */
  kf_string text = {0};
  kf_string_add(&text, "{", 1);
  for (int i = 0; i < 1000; i++) kf_string_addf(&text, "\"k%d\":%d,", i, i);
  size_t n = text.n;
  kf_string_add(&text, "\"last\":0}", 9);
  assert_int_equal(parse(&doc, text.data, &err), KF_OK);
  assert_int_equal(doc.nodes[0].count, 1001);
  kf_json_clear(&doc);
  text.n = n;
  kf_string_add(&text, "\"k0\":0}", 7);
  assert_int_equal(parse(&doc, text.data, &err), KF_ERR_DATA);
  assert_non_null(strstr(err.message, "'k0' twice"));
  kf_string_clear(&text);
}

TEST(numbers) {
  const double values_[] = {0,         1,     -1,      0.1,    0.3,     1.0 / 3,
                            465696e-6, 1e300, DBL_MIN, 5e-324, DBL_MAX, 150};
  for (size_t i = 0; i < sizeof values_ / sizeof *values_; i++) {
    char text[32];
    const char *end;
    kf_format_f64(values_[i], text);
    assert_true(kf_parse_f64(text, &end) == values_[i] && *end == '\0');
  }
  char text[32];
  kf_format_f64(0.1, text);
  assert_string_equal(text, "0.1");
  const char *const bad[] = {"", "x", "nan", "inf", "0x10", "1e", "--1", ",5"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *end;
    kf_parse_f64(bad[i], &end);
    assert_ptr_equal(end, bad[i]);
  }
}

/* A host program with a decimal comma changes nothing. */
TEST(locale_with_comma) {
  const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "cs_CZ.UTF-8"};
  const char *set = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && set == NULL; i++)
    set = setlocale(LC_ALL, names[i]);
  if (set == NULL) test_skip("locale with a decimal comma");
  char text[32];
  const char *end;
  kf_format_f64(0.25, text);
  assert_string_equal(text, "0.25");
  assert_true(kf_parse_f64("0.25x", &end) == 0.25 && *end == 'x');
  setlocale(LC_ALL, "C");
}

TEST(from_a_file) {
  const char *folder = test_folder(), *path = test_path(folder, "x.json");
  const struct {
    const char *text;
    kf_status any, object; /* what loading gives */
    const char *message;
  } cases[] = {{"{\"a\":1}", KF_OK, KF_OK, NULL},
               {"[1]", KF_OK, KF_ERR_DATA, "is not a JSON object"},
               {"[1", KF_ERR_DATA, KF_ERR_DATA, "not valid JSON at its byte 2"},
               {"[1,2,3,4,5,6]", KF_ERR_DATA, KF_ERR_DATA, "more than the limit of 8"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(cases[i].text, file);
    fclose(file);
    kf_json_doc doc;
    kf_err err;
    assert_int_equal(kf_json_load(path, 8, &doc, &err), cases[i].any);
    kf_json_clear(&doc);
    assert_int_equal(kf_json_load_object(path, 8, &doc, &err), cases[i].object);
    if (cases[i].message != NULL) assert_non_null(strstr(err.message, cases[i].message));
    if (cases[i].message != NULL) assert_non_null(strstr(err.message, path));
    kf_json_clear(&doc);
  }
  test_remove(folder);
}

/* A value takes 32 bytes, and "0," only two: their number is limited. */
TEST(many_values) {
  size_t n = (size_t)KF_JSON_VALUES * 2;
  AUTOFREE char *text = malloc(n + 1);
  assert_non_null(text);
  for (size_t i = 0; i < n; i++) text[i] = i == 0 ? '[' : i % 2 == 1 ? '0' : ',';
  kf_json_doc doc;
  kf_err err;
  text[n - 2] = ']'; /* the list and KF_JSON_VALUES - 1 numbers */
  text[n - 1] = ' ';
  assert_int_equal(parse_all(&doc, text, n, &err), KF_OK);
  assert_int_equal(doc.n, KF_JSON_VALUES);
  kf_json_clear(&doc);
  text[n - 2] = ',';
  text[n - 1] = '0';
  assert_int_equal(parse_all(&doc, text, n, &err), KF_ERR_DATA);
  assert_string_equal(err.message, "it holds more than 1048576 JSON values");
}

TEST(lists_of_strings) {
  static const struct {
    const char *text, *message; /* NULL: these are strings */
    uint32_t n;
  } cases[] = {{" [ ] ", NULL, 0},
               {"[\"a\" , \"\\u00e4\"]", NULL, 2},
               {"[\"a\",\"b\",\"c\"]", NULL, 3},
               {"[\"a\",\"b\",\"c\",\"d\"]", "it is not a JSON list of at most 3 strings", 0},
               {"{}", "it is not a JSON list of at most 3 strings", 0},
               {"", "it is not a JSON list of at most 3 strings", 0},
               {"[\"a\",7]", "entry 1 of it is not a string", 0},
               {"[\"a\",]", "entry 1 of it is not a string", 0},
               {"[\"a\"", "it is not valid JSON at its byte 4", 0},
               {"[\"a", "an unterminated string", 0},
               {"[\"a\"] x", "something follows the end", 0},
               {"[\"\xff\"]", "at its byte 2: bytes that are not UTF-8", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kf_json_strings list;
    kf_err err;
    kf_status status = kf_json_strings_parse(&list, cases[i].text, 3, "it", &err);
    assert_int_equal(status, cases[i].message == NULL ? KF_OK : KF_ERR_DATA);
    if (cases[i].message != NULL)
      assert_non_null(strstr(err.message, cases[i].message));
    else
      assert_int_equal(list.n, cases[i].n);
    if (i == 1) assert_string_equal(list.string[1], "\xc3\xa4");
    kf_json_strings_clear(&list);
  }
}
