/* test_labels.c - the order of files, which label file belongs to which data file, tables and
 * strings as labels, and files that are given twice. */
#include "files.h"

#include "file/file_internal.h"

#include <sys/stat.h>

/* --- the order of files ---------------------------------------------------------------------- */

static int compare(const char *a, const char *b) {
  int order = kf_by_number(&a, &b), reverse = kf_by_number(&b, &a);
  assert_int_equal((order > 0) - (order < 0), (reverse < 0) - (reverse > 0));
  return (order > 0) - (order < 0);
}

TEST(order_of_numbers) {
  static const char *const sorted[] = {/* rising, ties by bytes */
                                       "",
                                       "a",
                                       "a-1",
                                       "a/1",
                                       "a0",
                                       "a00",
                                       "a001",
                                       "a01",
                                       "a1",
                                       "a1b",
                                       "a2",
                                       "a9.npy",
                                       "a10.npy",
                                       "a10b2",
                                       "a10b10",
                                       "a99999999999999999999998",
                                       "a99999999999999999999999",
                                       "a100000000000000000000000",
                                       "aa",
                                       "b"};
  enum { N = sizeof sorted / sizeof *sorted };
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < N; j++)
      if (compare(sorted[i], sorted[j]) != (i > j) - (i < j))
        fail_msg("%s and %s", sorted[i], sorted[j]);
}

/* Shards s_0 … s_11, each a row {i + 1, 1}. */
enum { SHARDS = 12 };
static void write_twelve(void) {
  mkdir(at("s"), 0777);
  mkdir(at("l"), 0777);
  mkdir(at("named"), 0777);
  for (int i = 0; i < SHARDS; i++) {
    char name[32], text[8];
    const float row[2] = {(float)(i + 1), 1};
    const int32_t label = i;
    snprintf(name, sizeof name, "s/s_%d.npy", i);
    write_npy(name, "<f4", "(1, 2)", row, sizeof row);
    snprintf(name, sizeof name, "l/labels_%d.npy", i);
    write_npy(name, "<i4", "(1,)", &label, sizeof label);
    snprintf(name, sizeof name, "named/s_%d.txt", i);
    snprintf(text, sizeof text, "c%02d\n", i);
    write_text(name, text);
  }
}

/* Row {i + 1, 1} has label i, whatever the order of the rows. */
static void assert_matched(const kf_data *data, int by_number) {
  assert_int_equal(kf_data_rows(data), SHARDS);
  for (uint64_t i = 0; i < SHARDS; i++) {
    float row[2];
    int32_t label;
    assert_ok(ctx, kf_data_get(ctx, data, i, 1, row, &label));
    assert_int_equal(label, (int)row[0] - 1);
    if (by_number) assert_int_equal(label, i);
  }
}

static char logged[512];
static void keep_log(void *user, const char *message) {
  (void)user;
  snprintf(logged, sizeof logged, "%s", message);
}

/* The twelve paths as a shell lists them: 0, 1, 10, 11, 2, … */
static void list_by_bytes(const char *paths[SHARDS]) {
  static const int order[SHARDS] = {0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9};
  for (int i = 0; i < SHARDS; i++) {
    char name[32];
    snprintf(name, sizeof name, "s/s_%d.npy", order[i]);
    paths[i] = at(name);
  }
}

TEST(one_label_file_for_many) {
  write_twelve();
  int32_t y[SHARDS];
  for (int i = 0; i < SHARDS; i++) y[i] = i;
  const char *labels[] = {write_npy("y.npy", "<i4", "(12,)", y, sizeof y)};
  kf_data_options options = {.labels = labels, .n_labels = 1};
  kf_ctx *quiet = ctx;
  kf_ctx_options loud = {.threads = 1, .log = keep_log};
  assert_int_equal(kf_ctx_new(&loud, &ctx), KF_OK);
  kf_data *data;

  const char *const ways[] = {at("s"), at("s/s_*.npy")};
  for (size_t i = 0; i < 2; i++) { /* by number, and it says so */
    logged[0] = '\0';
    data = must_open(ways[i], &options);
    assert_matched(data, 1);
    assert_non_null(strstr(logged, "order of numbers"));
    assert_non_null(strstr(logged, "s_9.npy before"));
    kf_data_free(data);
  }
  const char *paths[SHARDS];
  list_by_bytes(paths);
  kf_status status = kf_data_open(ctx, paths, SHARDS, &options, &data);
  assert_failed(status, KF_ERR_ARG, "y.npy", "s_11.npy comes before");
  assert_int_equal(kf_errhint(ctx), KF_HINT_ORDER);
  options.order = KF_ORDER_NUMBER;
  assert_ok(ctx, kf_data_open(ctx, paths, SHARDS, &options, &data));
  assert_matched(data, 1);
  kf_data_free(data);

  logged[0] = '\0';
  for (kf_order order = KF_ORDER_NAME; order <= KF_ORDER_GIVEN; order++) {
    options.order = order;
    float row[2];
    int32_t label;
    assert_ok(ctx, kf_data_open(ctx, paths, SHARDS, &options, &data));
    assert_ok(ctx, kf_data_get(ctx, data, 2, 1, row, &label));
    assert_true(row[0] == 11 && label == 2);
    kf_data_free(data);
  }
  assert_string_equal(logged, "");
  options.order = (kf_order)4;
  assert_failed(kf_data_open(ctx, paths, SHARDS, &options, &data), KF_ERR_ARG, "order", "4");
  kf_ctx_free(ctx);
  ctx = quiet;
}

/* An order other than by bytes is the caller's choice; so is any order without a common label
 * file. */
TEST(orders_without_doubt) {
  write_twelve();
  const int32_t y[3] = {0, 1, 2};
  const char *labels[] = {write_npy("y3.npy", "<i4", "(3,)", y, sizeof y)};
  const char *const own[] = {at("s/s_9.npy"), at("s/s_11.npy"), at("s/s_10.npy")};
  kf_data *data;
  kf_data_options options = {.labels = labels, .n_labels = 1};
  assert_ok(ctx, kf_data_open(ctx, own, 3, &options, &data));
  kf_data_free(data);
  const char *paths[SHARDS];
  list_by_bytes(paths);
  assert_ok(ctx, kf_data_open(ctx, paths, SHARDS, NULL, &data));
  kf_data_free(data);
  /* Ids of a gallery and a truth also cover the rows of all files. */
  const char *ids = write_text("ids.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n");
  assert_ok(ctx, kf_data_open(ctx, paths, SHARDS, NULL, &data));
  kf_gallery_options gallery = {.ids = ids};
  assert_failed(kf_gallery_save(ctx, data, NULL, &gallery, at("g.safetensors")), KF_ERR_ARG,
                "ids.txt", "s_11.npy comes before");
  kf_data_free(data);
}

/* --- which label file belongs to which data file --------------------------------------------- */

TEST(label_folders) {
  write_twelve();
  const char *paths[SHARDS];
  list_by_bytes(paths);
  const char *const ways[] = {at("l"), at("l/labels_*.npy"), at("named"), at("named/*.txt")};
  for (size_t i = 0; i < 4; i++) {
    kf_data *data;
    kf_data_options options = {.labels = &ways[i], .n_labels = 1};
    assert_ok(ctx, kf_data_open(ctx, paths, SHARDS, &options, &data));
    assert_matched(data, 0);
    assert_int_equal(kf_data_reads(data, at("l/labels_3.npy")), i < 2);
    kf_data_free(data);
    data = must_open(at("s"), &options);
    assert_matched(data, 1);
    kf_data_free(data);
  }
  /* Matched by name, a subset of the data files is enough. */
  const char *const two[] = {at("s/s_10.npy"), at("s/s_2.npy")};
  kf_data *data;
  kf_data_options options = {.labels = &ways[2], .n_labels = 1};
  assert_ok(ctx, kf_data_open(ctx, two, 2, &options, &data));
  assert_string_equal(kf_data_class_name(data, 1), "c10");
  float row[2];
  int32_t label;
  assert_ok(ctx, kf_data_get(ctx, data, 0, 1, row, &label));
  assert_int_equal(label, 1);
  kf_data_free(data);
}

TEST(label_folders_that_do_not_fit) {
  write_twelve();
  const char *folders[] = {at("named")};
  kf_data_options options = {.labels = folders, .n_labels = 1};
  unlink(at("named/s_7.txt"));
  assert_refused(at("s"), &options, KF_ERR_DATA, "s_7.npy: no label file has its name");
  folders[0] = at("l");
  unlink(at("l/labels_7.npy"));
  assert_refused(at("s"), &options, KF_ERR_ARG, "11 label files");
  const int32_t label = 7;
  write_npy("l/labels_12.npy", "<i4", "(1,)", &label, sizeof label);
  assert_refused(at("s"), &options, KF_ERR_DATA, "the numbers in their names differ");
  unlink(at("l/labels_12.npy"));
  const int32_t two[2] = {7, 7};
  write_npy("l/labels_7.npy", "<i4", "(2,)", two, sizeof two);
  kf_data *data;
  const char *path = at("s");
  assert_failed(kf_data_open(ctx, &path, 1, &options, &data), KF_ERR_DATA, "labels_7.npy: 2 labels",
                "s_7.npy");
}

/* Label files given one by one follow the order of the paths, which must not be sorted then; next
 * to a folder, whose order is not the caller's, that is logged. */
TEST(labels_one_by_one) {
  write_twelve();
  const char *const paths[] = {at("s/s_10.npy"), at("s/s_9.npy")};
  const char *labels[SHARDS] = {at("l/labels_10.npy"), at("l/labels_9.npy")};
  kf_data_options options = {.labels = labels, .n_labels = 2};
  kf_data *data;
  int32_t label;
  float row[2];
  for (kf_order order = KF_ORDER_DEFAULT; order <= KF_ORDER_NAME; order++) {
    options.order = order;
    kf_status status = kf_data_open(ctx, paths, 2, &options, &data);
    if (order == KF_ORDER_NUMBER) {
      assert_failed(status, KF_ERR_ARG, "labels_10.npy first", "cannot be sorted");
      continue;
    }
    assert_ok(ctx, status);
    assert_ok(ctx, kf_data_get(ctx, data, 1, 1, row, &label));
    assert_true(row[0] == 10 && label == 9);
    kf_data_free(data);
  }
  for (int i = 0; i < SHARDS; i++) {
    char name[32];
    snprintf(name, sizeof name, "l/labels_%d.npy", i);
    labels[i] = at(name);
  }
  kf_ctx *quiet = ctx;
  kf_ctx_options loud = {.threads = 1, .log = keep_log};
  assert_int_equal(kf_ctx_new(&loud, &ctx), KF_OK);
  logged[0] = '\0';
  data = must_open(at("s"), &(kf_data_options){.labels = labels, .n_labels = SHARDS});
  assert_matched(data, 1);
  assert_non_null(strstr(logged, "order of numbers"));
  kf_data_free(data);
  kf_ctx_free(ctx);
  ctx = quiet;
}

/* --- tables ---------------------------------------------------------------------------------- */

static const float rows3[6] = {1, 1, 2, 1, 3, 1};

/* Labels from a text file with this name: three rows with the classes named, or a failure. */
static void assert_table(const char *name, const char *text, const char *column, const char *a,
                         const char *b, const char *c) {
  const char *labels[] = {write_text(name, text)}, *want[] = {a, b, c};
  kf_data_options options = {.labels = labels, .n_labels = 1, .label_column = column};
  AUTO(kf_data) *data =
      must_open(write_npy("r3.npy", "<f4", "(3, 2)", rows3, sizeof rows3), &options);
  for (uint32_t i = 0; i < 3; i++) {
    float row[2];
    int32_t label;
    assert_ok(ctx, kf_data_get(ctx, data, i, 1, row, &label));
    assert_string_equal(kf_data_class_name(data, (uint32_t)label), want[i]);
  }
}

static void assert_no_table(const char *name, const char *text, const char *column,
                            const char *cause) {
  const char *labels[] = {write_text(name, text)};
  kf_data_options options = {.labels = labels, .n_labels = 1, .label_column = column};
  kf_data *data;
  const char *path = write_npy("r3.npy", "<f4", "(3, 2)", rows3, sizeof rows3);
  assert_failed(open_one(path, &options, &data), KF_ERR_DATA, name, cause);
}

TEST(tables) {
  /* One column, with a header or without. */
  assert_table("t.csv", "x\ny\nx\n", NULL, "x", "y", "x");
  assert_table("t.csv", "label\nx\ny\nx", NULL, "x", "y", "x");
  assert_table("t.csv", "\xEF\xBB\xBFlabel\r\nx\r\ny\r\nx\r\n", NULL, "x", "y", "x");
  assert_table("t.csv", "label\nlabel\ny\nlabel\n", NULL, "label", "y", "label");
  assert_table("t.csv", "label\ny\nlabel", NULL, "label", "y", "label");
  /* A column by name and by number. */
  static const char *const four = "path,label\n\"a,1\",x\nb,\"y \"\"z\"\"\"\nc,\"x\"\n";
  assert_table("t.csv", four, "label", "x", "y \"z\"", "x");
  assert_table("t.csv", four, "2", "x", "y \"z\"", "x");
  assert_table("t.csv", four, "path", "a,1", "b", "c");
  assert_table("t.txt", four, "label", "x", "y \"z\"", "x");
  assert_table("t.csv", "a,x\nb,2\nc,x\n", "2", "x", "2", "x");
  assert_table("t.csv", "\"l\n1\",b\nx,\"\n\"\ny,\nx,", "1", "x", "y", "x");
  assert_table("t.tsv", "path\tlabel\na,1\tx\nb\ty\nc\tx\n", "label", "x", "y", "x");
}

TEST(bad_tables) {
  assert_no_table("t.csv", "path,label\na,x\nb,y\nc,x\n", NULL,
                  "2 columns, and its first line is 'path', 'label'");
  assert_int_equal(kf_errhint(ctx), KF_HINT_LABEL_COLUMN);
  assert_no_table("t.csv", "path,label\na,x\nb,y\nc,x\n", "class",
                  "no column 'class'; the first line is 'path'");
  assert_no_table("t.csv", "l,l\na,x\nb,y\nc,x\n", "l", "more than one column 'l'");
  assert_no_table("t.csv", "l,l\na,x\nb,y\nc,x\n", "3", "no column 3");
  assert_no_table("t.csv", "l,l\na,x\nb,y\nc,x\n", "0", "no column '0'");
  assert_no_table("t.csv", "Label\nx\ny\n", NULL,
                  "says 'Label' like a header, but without it there are 2 labels");
  assert_no_table("t.csv", "x\ny\n", NULL, "2 labels for the 3 rows");
  assert_no_table("t.txt", "l\nx\ny\nx", NULL, "4 labels for the 3 rows");
  assert_int_equal(kf_errhint(ctx), KF_HINT_LABEL_COLUMN);
  assert_no_table("t.csv", "x\ny\nx\ny\ny", NULL, "5 labels for the 3 rows");
  assert_no_table("t.csv", "l\na\nb,\nc\n", "l", "line 3 has 2 fields, but the first line has 1");
  assert_no_table("t.csv", "l,m\na,b\n\nc,d\n", "l", "line 3 has 1 field, but");
  assert_no_table("t.csv", "l\n\"a\"b\nb\nc\n", "l",
                  "line 2 has text after a closing quotation mark");
  assert_no_table("t.csv", "l\na\"b\nb\nc\n", "l", "line 2 has a quotation mark inside");
  assert_no_table("t.csv", "l\na\n\"b\nc\n", "l", "the quotation mark in line 3 is not closed");
  assert_no_table("t.csv", "l\ra\rb\rc\r", "l", "line 1 has a carriage return without");
  assert_no_table("t.csv", "l\na\n\nc\n", "l", "the label in line 3 is empty");
  assert_no_table("t.csv", "l\na\n\xff\nc\n", "l", "not valid UTF-8");
  assert_no_table("t.csv", "\xEF\xBB\xBF", "l", "no lines");
  const char nul[] = "l\na\0\nb\nc\n";
  const char *labels[] = {write_bytes("t.csv", nul, sizeof nul - 1)};
  kf_data_options options = {.labels = labels, .n_labels = 1, .label_column = "l"};
  kf_data *data;
  assert_failed(open_one(at("r3.npy"), &options, &data), KF_ERR_DATA, "t.csv",
                "line 2 contains a NUL");
  AUTOFREE char *field = malloc(70002);
  memset(field, 'x', 70001);
  field[70001] = '\0';
  assert_no_table("t.csv", field, NULL, "line 1 has a field of more than 65536 bytes");
}

/* Many records, fetched from the middle: the index, and quoted line ends across it. */
TEST(long_table) {
  enum { N = 3000 };
  char *text = malloc(64 * N), *end = text;
  AUTOFREE float *rows = malloc(sizeof(float) * N);
  end += sprintf(end, "note,label\r\n");
  for (int i = 0; i < N; i++) {
    rows[i] = (float)(i + 1);
    end += sprintf(end, "\"line\n%s\",\"c%d\"\r\n", i % 3 ? "" : ",\"\"", i % 7);
  }
  const char *labels[] = {write_text("long.csv", text)};
  const char *path = write_npy("long.npy", "<f4", "(3000, 1)", rows, sizeof(float) * N);
  AUTO(kf_data) *data =
      must_open(path, &(kf_data_options){.labels = labels, .n_labels = 1, .label_column = "label"});
  static const uint64_t firsts[] = {0, 1, 1023, 1024, 2047, 2999, 1500};
  for (size_t i = 0; i < 7; i++) {
    int32_t label[100];
    float row[100];
    uint64_t n = N - firsts[i] < 100 ? N - firsts[i] : 100;
    assert_ok(ctx, kf_data_get(ctx, data, firsts[i], n, row, label));
    for (uint64_t j = 0; j < n; j++) assert_int_equal(label[j], (firsts[i] + j) % 7);
  }
  free(text);
}

/* --- strings --------------------------------------------------------------------------------- */

TEST(strings) {
  const uint32_t wide[9] = {'b', 0x20AC, 0x1F600, 'a', 0, 0, 'b', 0x20AC, 0x1F600};
  const char bytes[9] = {'b', (char)0xC3, (char)0xA9, 'a', 0, 0, 'b', (char)0xC3, (char)0xA9};
  const char *path = write_npy("r3.npy", "<f4", "(3, 2)", rows3, sizeof rows3);
  const int32_t want[3] = {1, 0, 1};
  for (int i = 0; i < 2; i++) {
    const char *labels[] = {i ? write_npy("s.npy", "|S3", "(3,)", bytes, sizeof bytes)
                              : write_npy("s.npy", "<U3", "(3, 1)", wide, sizeof wide)};
    AUTO(kf_data) *data = must_open(path, &(kf_data_options){.labels = labels, .n_labels = 1});
    float row[6];
    int32_t label[3];
    assert_ok(ctx, kf_data_get(ctx, data, 0, 3, row, label));
    assert_memory_equal(label, want, sizeof want);
    assert_string_equal(kf_data_class_name(data, 0), "a");
    assert_string_equal(kf_data_class_name(data, 1),
                        i ? "b\xC3\xA9" : "b\xE2\x82\xAC\xF0\x9F\x98\x80");
  }
}

TEST(bad_strings) {
  const struct {
    const char *type, *shape;
    const void *data;
    size_t n;
    const char *cause;
  } cases[] = {
      {"<U2", "(3,)", (uint32_t[]){'a', 0, 0, 'b', 'c', 0}, 24, "row 1 contains a NUL"},
      {"<U1", "(3,)", (uint32_t[]){'a', 0xD800, 'c'}, 12, "row 1 is not valid UTF-32"},
      {"<U1", "(3,)", (uint32_t[]){'a', 'b', 0x110000}, 12, "row 2 is not valid UTF-32"},
      {"<U1", "(3,)", (uint32_t[]){'a', 0, 'c'}, 12, "the label in row 1 is empty"},
      {"<U0", "(3,)", "", 0, "the label in row 0 is empty"},
      {"|S2", "(3,)", "a\0\0bcc", 6, "row 1 contains a NUL"},
      {"|S1", "(3,)",
       "a\xff"
       "c",
       3, "row 1 is not valid UTF-8"},
      {"|S1", "(2,)", "ab", 2, "2 labels for the 3 rows"},
      {"|S1", "(3, 2)", "abcdef", 6, "must be a list, but the array has 2"},
      {"|S1", "(4,)", "abc", 3, "cut short"},
      {">U1", "(3,)", (uint32_t[]){1, 2, 3}, 12, "big-endian"},
      {"<U", "(3,)", (uint32_t[]){1, 2, 3}, 12, "'<U' is not supported"},
      {"|S99999999999", "(3,)", "abc", 3, "is not supported"},
      {"|S99999999", "(0,)", "", 0, "more than 65536 bytes per label"},
      {"<f4", "(3,)", rows3, 12, "must be integers or strings"},
  };
  const char *path = write_npy("r3.npy", "<f4", "(3, 2)", rows3, sizeof rows3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *labels[] = {
        write_npy("s.npy", cases[i].type, cases[i].shape, cases[i].data, cases[i].n)};
    kf_data *data;
    kf_data_options options = {.labels = labels, .n_labels = 1};
    assert_failed(open_one(path, &options, &data), KF_ERR_DATA, "s.npy", cases[i].cause);
  }
  assert_refused(write_npy("s.npy", "|S1", "(3, 1)", "abc", 3), NULL, KF_ERR_DATA,
                 "embeddings must be floats");
}

/* --- the same file twice --------------------------------------------------------------------- */

TEST(same_file_twice) {
  const char *path = write_npy("twice.npy", "<f4", "(3, 2)", rows3, sizeof rows3);
  unlink(at("link.npy"));
  assert_int_equal(symlink("twice.npy", at("link.npy")), 0);
  const char *labels[] = {write_text("six.txt", "a\nb\na\na\nb\na\n")};
  const char *const both[] = {path, at("link.npy")}, *const one[] = {path, path};
  kf_data_options options = {.labels = labels, .n_labels = 1};
  kf_data *data;
  assert_failed(kf_data_open(ctx, both, 2, &options, &data), KF_ERR_ARG,
                "link.npy, which is the same file as", "twice.npy");
  assert_failed(kf_data_open(ctx, one, 2, &options, &data), KF_ERR_ARG, "given twice", "twice.npy");
  kf_ctx *quiet = ctx;
  kf_ctx_options loud = {.threads = 1, .log = keep_log};
  assert_int_equal(kf_ctx_new(&loud, &ctx), KF_OK);
  logged[0] = '\0';
  assert_ok(ctx, kf_data_open(ctx, both, 2, NULL, &data));
  assert_non_null(strstr(logged, "rows are taken twice"));
  kf_data_free(data);
  kf_ctx_free(ctx);
  ctx = quiet;
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
