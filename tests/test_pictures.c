/* test_pictures.c - lists of pictures: folders of classes, patterns, list files; what is
 * refused. */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

/* --- files ----------------------------------------------------------------------- */

static char place[64];
static kf_ctx *ctx;
static char told[4096]; /* log messages, concatenated */

static void listen(void *user, const char *message) {
  (void)user;
  size_t n = strlen(told);
  snprintf(told + n, sizeof told - n, "%s\n", message);
}

static int enter(void **state) {
  (void)state;
  strcpy(place, "/tmp/koofu-pictures-XXXXXX");
  assert_non_null(mkdtemp(place));
  assert_int_equal(chdir(place), 0);
  told[0] = '\0';
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 1, .log = listen}, &ctx), KF_OK);
  return 0;
}

static int leave(void **state) {
  (void)state;
  kf_ctx_free(ctx);
  char command[256];
  snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", place, place);
  assert_int_equal(chdir("/tmp"), 0);
  return system(command);
}

/* Makes a file, and the folders it is in. */
static void touch(const char *path, const char *content) {
  char upper[4096];
  for (const char *slash = path; (slash = strchr(slash + 1, '/')) != NULL;) {
    snprintf(upper, sizeof upper, "%.*s", (int)(slash - path), path);
    mkdir(upper, 0777);
  }
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(content, file);
  fclose(file);
}

static void touch_all(const char *const *paths) {
  for (; *paths != NULL; paths++) touch(*paths, "x");
}
#define TOUCH(...) touch_all((const char *const[]){__VA_ARGS__, NULL})

static kf_pictures *open_all(const char *const *paths) {
  size_t n = 0;
  while (paths[n] != NULL) n++;
  kf_pictures *list = NULL;
  kf_status status = kf_pictures_open(ctx, paths, n, &list);
  if (status != KF_OK) print_error("%s\n", kf_errmsg(ctx));
  assert_int_equal(status, KF_OK);
  return list;
}
#define OPEN(...) open_all((const char *const[]){__VA_ARGS__, NULL})

/* "path class" for each picture, in order; class "-": none. */
static void check_all(kf_pictures *list, const char *const *wanted) {
  uint64_t n = 0;
  for (; wanted[n] != NULL; n++) {
    int32_t label = kf_pictures_label(list, n);
    char got[8192];
    snprintf(got, sizeof got, "%s %s", kf_pictures_path(list, n),
             label < 0 ? "-" : kf_pictures_class_name(list, (uint32_t)label));
    assert_string_equal(got, wanted[n]);
  }
  assert_int_equal(kf_pictures_count(list), n);
  assert_null(kf_pictures_path(list, n));
  assert_null(kf_pictures_id(list, n));
  assert_int_equal(kf_pictures_label(list, n), KF_LABEL_NONE);
  assert_int_equal(kf_pictures_label(list, UINT64_MAX), KF_LABEL_NONE);
  assert_null(kf_pictures_path(list, UINT64_MAX));
  assert_null(kf_pictures_class_name(list, kf_pictures_classes(list)));
  assert_null(kf_pictures_class_name(list, UINT32_MAX));
  kf_pictures_free(list);
}
#define CHECK(list, ...) check_all(list, (const char *const[]){__VA_ARGS__, NULL})

static void refuse(kf_status wanted, const char *path, const char *words) {
  kf_pictures *list = NULL;
  assert_int_equal(kf_pictures_open(ctx, &path, 1, &list), wanted);
  assert_null(list);
  if (strstr(kf_errmsg(ctx), words) == NULL) fail_msg("%s", kf_errmsg(ctx));
}

/* --- folders ---------------------------------------------------------------------------------- */

TEST(folders_are_classes) {
  TOUCH("p/dog/2.png", "p/dog/10.JPG", "p/dog/deep/er/1.WebP", "p/cat/a.jpeg", "p/cat/notes.txt",
        "p/cat/.hidden.png", "p/.git/x.png", "p/empty/readme", "p/stray.png");
  kf_pictures *list = OPEN("p");
  assert_int_equal(kf_pictures_classes(list), 2);
  assert_null(kf_pictures_class_name(list, 2));
  CHECK(list, "p/cat/a.jpeg cat", "p/dog/10.JPG dog", "p/dog/2.png dog",
        "p/dog/deep/er/1.WebP dog");
  assert_non_null(strstr(told, "p/empty: has no pictures"));
  assert_non_null(strstr(told, "p: left out 1 picture next to the class folders"));
  assert_non_null(strstr(told, "stray.png"));
}

/* A slash sorts after '-', so the order of paths is not that of classes. */
TEST(order_of_bytes) {
  TOUCH("p/a/1.png", "p/a-b/1.png", "p/B/1.png");
  kf_pictures *list = OPEN("p/");
  assert_string_equal(kf_pictures_class_name(list, 0), "B");
  assert_string_equal(kf_pictures_class_name(list, 1), "a");
  assert_string_equal(kf_pictures_class_name(list, 2), "a-b");
  CHECK(list, "p/B/1.png B", "p/a-b/1.png a-b", "p/a/1.png a");
}

TEST(without_classes) {
  TOUCH("p/b.png", "p/a.png", "p/sub/readme.txt", "one.gif");
  kf_pictures *list = OPEN("one.gif", "p"); /* a named file is accepted with any ending */
  assert_int_equal(kf_pictures_classes(list), 0);
  CHECK(list, "one.gif -", "p/a.png -", "p/b.png -");
}

static void touch_bytes(const char *path, const char *bytes, size_t n) {
  touch(path, "");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  fclose(file);
}
#define BYTES(path, bytes) touch_bytes(path, bytes, sizeof(bytes) - 1)

/* Files in folders are recognised by their first bytes; unreadable formats are counted. */
TEST(told_by_first_bytes) {
  BYTES("p/cat/jpeg.bmp", "\xff\xd8\xff\xe0");
  BYTES("p/cat/png", "\x89PNG\r\n\x1a\n");
  BYTES("p/cat/webp.dat", "RIFF\4\0\0\0WEBP");
  BYTES("p/cat/sound.dat", "RIFF\4\0\0\0WAVE");
  BYTES("p/dog/a.jpg", "GIF89a"); /* reading it will report the error */
  CHECK(OPEN("p"), "p/cat/jpeg.bmp cat", "p/cat/png cat", "p/cat/webp.dat cat", "p/dog/a.jpg dog");
  assert_string_equal(told, "");
  CHECK(OPEN("p/cat/*"), "p/cat/jpeg.bmp -", "p/cat/png -", "p/cat/webp.dat -");
  assert_string_equal(told, "");

  TOUCH("p/cat/notes.txt", "p/cat/list.json", "p/cat/.DS_Store", "p/cat/.hidden.gif");
  assert_int_equal(mkfifo("p/cat/pipe", 0666), 0); /* not waited for */
  BYTES("p/cat/text", "BMI: 22.5, and so on, more than 18 bytes");
  CHECK(OPEN("p/cat"), "p/cat/jpeg.bmp -", "p/cat/png -", "p/cat/webp.dat -");
  assert_string_equal(told, "");
}

TEST(other_formats_are_counted) {
  TOUCH("p/cat/1.png", "p/cat/a.GIF", "p/cat/b.heic", "p/dog/1.png", "p/only/x.tif");
  BYTES("p/dog/gif", "GIF87a");
  BYTES("p/dog/bmp", "BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0");
  BYTES("p/dog/tiff", "MM\0*");
  BYTES("p/dog/heic", "\0\0\0\x18"
                      "ftypheic");
  BYTES("p/dog/avif", "\0\0\0\x18"
                      "ftypavif");
  CHECK(OPEN("p"), "p/cat/1.png cat", "p/dog/1.png dog");
  assert_string_equal(told,
                      "p/only: has no pictures that can be read and is not a class\n"
                      "left out 8 pictures of other formats (a.GIF, b.heic, avif, ...); JPEG, PNG "
                      "and WebP can be read\n");
  told[0] = '\0';
  CHECK(OPEN("p/cat/*"), "p/cat/1.png -");
  assert_string_equal(told, "left out 2 pictures of other formats (a.GIF, b.heic); JPEG, PNG and "
                            "WebP can be read\n");
  refuse(KF_ERR_DATA, "p/only",
         "p/only: no JPEG, PNG or WebP picture in this folder or below, but 1 picture of other "
         "formats (x.tif)");
}

TEST(folders_share_classes) {
  TOUCH("q/dog/1.png", "q/ant/1.png", "p/dog/1.png", "p/cat/1.png", "x.png");
  kf_pictures *list = OPEN("q", "x.png", "p");
  assert_int_equal(kf_pictures_classes(list), 3);
  assert_string_equal(kf_pictures_class_name(list, 0), "ant");
  CHECK(list, "q/ant/1.png ant", "q/dog/1.png dog", "x.png -", "p/cat/1.png cat",
        "p/dog/1.png dog");
}

TEST(patterns) {
  TOUCH("p/b.png", "p/a.PNG", "p/c.txt", "p/in/z.png", "we[i]rd.png");
  CHECK(OPEN("p/*"), "p/a.PNG -", "p/b.png -", "p/in/z.png -");
  CHECK(OPEN("p/[ab].*"), "p/a.PNG -", "p/b.png -");
  CHECK(OPEN("we[i]rd.png"), "we[i]rd.png -"); /* a file of this name comes first */
  refuse(KF_ERR_IO, "p/*.webp", "p/*.webp: no file matches");
  refuse(KF_ERR_DATA, "p/*.txt", "p/*.txt: matches neither JPEG, PNG or WebP pictures");
}

TEST(loops_end) {
  TOUCH("p/cat/1.png", "p/dog/1.png");
  assert_int_equal(symlink("..", "p/cat/up"), 0);
  assert_int_equal(symlink(".", "p/dog/self"), 0);
  assert_int_equal(symlink("dog", "p/wolf"), 0); /* another class with the same pictures */
  assert_int_equal(symlink("nowhere.png", "p/cat/gone.png"), 0);
  assert_int_equal(symlink("../dog/1.png", "p/cat/link.png"), 0);
  CHECK(OPEN("p"), "p/cat/1.png cat", "p/cat/gone.png cat", "p/cat/link.png cat", "p/dog/1.png dog",
        "p/wolf/1.png wolf");
}

TEST(what_is_refused) {
  TOUCH("p/cat/1.png", "none/x.txt", "none/in/y.gif", "bad/\xff.png", "badclass/\xc3(/1.png");
  refuse(KF_ERR_IO, "absent.png", "absent.png: cannot be opened");
  refuse(KF_ERR_DATA, "none", "none: no JPEG, PNG or WebP picture");
  refuse(KF_ERR_DATA, "bad", "bad/\\xff.png: the path is not valid UTF-8");
  refuse(KF_ERR_DATA, "badclass", "badclass/\\xc3(: the name of the class");
  const char *twice[] = {"p", "p/cat"};
  kf_pictures *list = NULL;
  assert_int_equal(kf_pictures_open(ctx, twice, 2, &list), KF_ERR_DATA);
  assert_non_null(strstr(kf_errmsg(ctx), "p/cat/1.png: appears twice among the pictures"));
  assert_int_equal(kf_pictures_open(ctx, twice, 0, &list), KF_ERR_ARG);
  assert_int_equal(kf_pictures_open(ctx, NULL, 1, &list), KF_ERR_ARG);
  assert_int_equal(kf_pictures_open(ctx, &(const char *){NULL}, 1, &list), KF_ERR_ARG);
  assert_int_equal(kf_pictures_open(NULL, twice, 1, &list), KF_ERR_ARG);
  kf_pictures_free(NULL);
  if (geteuid() == 0) return;
  assert_int_equal(chmod("p/cat", 0), 0);
  refuse(KF_ERR_IO, "p", "p/cat: cannot be opened");
}

TEST(deep_folders) {
  char path[4096] = "p/class";
  mkdir("p", 0777);
  mkdir(path, 0777);
  for (int i = 0; i < 900; i++) {
    strcat(path, "/d");
    assert_int_equal(mkdir(path, 0777), 0);
  }
  strcat(path, "/1.png");
  touch(path, "x");
  AUTO(kf_pictures) *list = OPEN("p");
  assert_int_equal(kf_pictures_count(list), 1);
  assert_string_equal(kf_pictures_path(list, 0), path);
}

TEST(many_pictures) {
  char path[64];
  for (int i = 0; i < 3000; i++) {
    snprintf(path, sizeof path, "p/k%d/%04d.png", i % 7, i);
    touch(path, "");
  }
  AUTO(kf_pictures) *list = OPEN("p");
  assert_int_equal(kf_pictures_count(list), 3000);
  for (uint64_t i = 1; i < 3000; i++)
    assert_true(strcmp(kf_pictures_path(list, i - 1), kf_pictures_path(list, i)) < 0);
}

/* --- lists ------------------------------------------------------------------------------------ */

TEST(lists) {
  touch("in/list.txt", "\xEF\xBB\xBF"
                       "b.png\tdog\r\nsub/a.png\tcat\n/abs.png\tdog");
  kf_pictures *list;
  assert_int_equal(kf_pictures_open_list(ctx, "in/list.txt", &list), KF_OK);
  assert_string_equal(kf_pictures_id(list, 0), "b.png");
  assert_string_equal(kf_pictures_id(list, 1), "sub/a.png");
  assert_string_equal(kf_pictures_id(list, 2), "/abs.png");
  CHECK(list, "in/b.png dog", "in/sub/a.png cat", "/abs.png dog");
  touch("plain.txt", "b.png\na.png\n");
  assert_int_equal(kf_pictures_open_list(ctx, "plain.txt", &list), KF_OK);
  assert_int_equal(kf_pictures_classes(list), 0);
  CHECK(list, "b.png -", "a.png -");
}

TEST(bad_lists) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"a.png\n\nb.png\n", "l.txt: line 2 is neither"},
      {"a.png\tdog\nb.png\n", "l.txt: line 2 has no class"},
      {"a.png\nb.png\tdog\n", "l.txt: line 2 has a class"},
      {"a.png\t\n", "l.txt: line 1 is neither"},
      {"\tdog\n", "l.txt: line 1 is neither"},
      {"a.png\tdog\tcat\n", "l.txt: line 1 is neither"},
      {"a.png\nb\xff.png\n", "l.txt: line 2 is not valid UTF-8"},
      {"a.png\td\xffg\n", "l.txt: line 1 is not valid UTF-8"},
      {"a.png\nb.png\na.png\n", "a.png: appears twice among the pictures"},
      {"", "l.txt: is empty"},
      {"\xEF\xBB\xBF", "l.txt: is empty"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kf_pictures *list = NULL;
    touch("l.txt", cases[i].text);
    assert_int_equal(kf_pictures_open_list(ctx, "l.txt", &list), KF_ERR_DATA);
    assert_null(list);
    if (strstr(kf_errmsg(ctx), cases[i].words) == NULL) fail_msg("%s", kf_errmsg(ctx));
  }
  kf_pictures *list = NULL;
  assert_int_equal(kf_pictures_open_list(ctx, "absent.txt", &list), KF_ERR_IO);
  assert_int_equal(kf_pictures_open_list(ctx, NULL, &list), KF_ERR_ARG);
}

/* --- tables of labels ------------------------------------------------------------------------- */

static kf_status open_labelled(const char *folder, const kf_pictures_options *o,
                               kf_pictures **out) {
  return kf_pictures_open_with(ctx, &folder, 1, o, out);
}

TEST(tables_of_labels) {
  static const struct {
    const char *table, *id_column, *label_column;
  } cases[] = {
      {"filename,label\na.png,dog\nb.jpg,cat\nd.png,cat\n", NULL, NULL},
      {"\xEF\xBB\xBFid,breed\r\nb,cat\r\na,\"dog\"\r\nd,cat", NULL, NULL},
      {"no,PATH,x,Class\n1,in/a.png,y,dog\n2,./in/b.jpg,y,cat\n3,in/sub/d.png,y,cat\n", NULL, NULL},
      {"kind,photo,of\ndog,/data/in/a.png,x\ncat,b.jpg,x\ncat,sub/d,x\n", "photo", "kind"},
      {"dog,a\ncat,b\ncat,d\n", "2", "1"},
      {"what,who\ndog,a\ncat,b\ncat,d\n", "2", NULL},
      {"file,label,class\na.png,x,dog\nb.jpg,x,cat\nd.png,x,cat\n", NULL, "3"},
  };
  TOUCH("in/a.png", "in/b.jpg", "in/cls/c.png", "in/sub/d.png", "in/d.c.png");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kf_pictures *list;
    touch("t.csv", cases[i].table);
    told[0] = '\0';
    kf_pictures_options o = {
        .labels = "t.csv", .id_column = cases[i].id_column, .label_column = cases[i].label_column};
    assert_ok(ctx, open_labelled("in", &o, &list));
    assert_string_equal(told, "left out 2 pictures that t.csv does not label (in/cls/c.png, "
                              "in/d.c.png)\n");
    CHECK(list, "in/a.png dog", "in/b.jpg cat", "in/sub/d.png cat");
  }
  touch("t.tsv", "image\tlabel\nd.c\tdog, or not\n");
  kf_pictures *list;
  assert_ok(ctx, open_labelled("in", &(kf_pictures_options){.labels = "t.tsv"}, &list));
  CHECK(list, "in/d.c.png dog, or not");
  /* In the current folder, and of pictures given one by one. */
  assert_int_equal(chdir("in"), 0);
  assert_ok(ctx, open_labelled(".", &(kf_pictures_options){.labels = "../t.tsv"}, &list));
  CHECK(list, "./d.c.png dog, or not");
  assert_int_equal(chdir(".."), 0);
  assert_ok(ctx, open_labelled("in/d.c.png", &(kf_pictures_options){.labels = "t.tsv"}, &list));
  CHECK(list, "in/d.c.png dog, or not");
}

TEST(bad_tables_of_labels) {
  static const struct {
    const char *table, *id_column, *label_column, *words;
  } cases[] = {
      {"filename,label\na.png,dog\ngone.png,cat\nlost,cat\n", NULL, NULL,
       "t.csv: 2 lines name no picture that is there (gone.png, lost)"},
      {"filename,label\nelse/a.png,dog\nb.png,cat\n", NULL, NULL, "1 line names no picture"},
      {"filename,label\nx/a.png,dog\ny.png,cat\n", NULL, NULL,
       "t.csv: no line names one of the 4 pictures, but x/a.png, y.png, which are not among them"},
      {"filename,label\n", NULL, NULL, "t.csv: no line names one of the 4 pictures"},
      {"filename,label\na.png,dog\nb.png,cat\nin/a.png,dog\n", NULL, NULL,
       "t.csv: line 4 labels in/a.png a second time: line 2 does, too"},
      {"filename,label\nc.png,dog\n", NULL, NULL,
       "t.csv: line 2: 'c.png' may be any of 2 pictures, such as in/"},
      {"filename,label\na.png,\n", NULL, NULL, "t.csv: line 2: the field for labels is empty"},
      {"filename,label\n,dog\n", NULL, NULL, "t.csv: line 2: the field for file names is empty"},
      {"filename,label\na.png,d\xffg\n", NULL, NULL,
       "line 2: the field for labels is not valid UTF-8"},
      {"filename,label\na.png\n", NULL, NULL,
       "t.csv: line 2 has 1 field, but the first line has 2"},
      {"filename,label\na.png,\"dog\n", NULL, NULL, "the quotation mark in line 2 is not closed"},
      {"a.png,dog\nb.png,cat\n", NULL, NULL,
       "t.csv: no column is known to hold file names, as 'filename' or 'file_name' would be; the "
       "first line is 'a.png', 'dog'"},
      {"filename,x,y_\na.png,dog,1\n", NULL, NULL, "no column is known to hold labels"},
      {"filename;label\na.png;dog\n", NULL, NULL, "a single column: commas separate those of a"},
      {"filename,label\na.png,dog\n", NULL, "kind", "t.csv: there is no column 'kind'"},
      {"filename,label\na.png,dog\n", "3", NULL, "t.csv: there is no column '3'"},
      {"filename,label,label\na.png,dog,1\n", NULL, "label", "more than one column 'label'"},
      {"filename,label\na.png,dog\n", "1", "1", "column 1 cannot hold both file names and labels"},
      {"", NULL, NULL, "t.csv: is empty"},
  };
  TOUCH("in/a.png", "in/b.png", "in/x/c.png", "in/y/c.png");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kf_pictures *list = NULL;
    touch("t.csv", cases[i].table);
    kf_pictures_options o = {
        .labels = "t.csv", .id_column = cases[i].id_column, .label_column = cases[i].label_column};
    assert_int_equal(open_labelled("in", &o, &list), KF_ERR_DATA);
    assert_null(list);
    if (strstr(kf_errmsg(ctx), cases[i].words) == NULL) fail_msg("%s", kf_errmsg(ctx));
  }
  kf_pictures *list;
  touch("t.csv", cases[0].table);
  told[0] = '\0';
  kf_pictures_options o = {.labels = "t.csv", .skip_bad = 1};
  assert_ok(ctx, open_labelled("in", &o, &list));
  CHECK(list, "in/a.png dog");
  assert_string_equal(told, "t.csv: left out 2 lines that name no picture that is there (gone.png, "
                            "lost)\nleft out 3 pictures that t.csv does not label (in/b.png, "
                            "in/x/c.png, in/y/c.png)\n");
  o.labels = "absent.csv";
  assert_error(ctx, KF_ERR_IO, "absent.csv", open_labelled("in", &o, &list));
}

FIXTURES(.before_each = enter, .after_each = leave);
