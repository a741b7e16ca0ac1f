/* test_base.c - checksums, arenas, names, threads, errors, and files that are whole or absent. */
#include "test.h"

#include "base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

AUTO_OBJECT(kf_dict)

/* --- checksum --------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text, size_t n, size_t step) {
  kf_checksum hash;
  kf_checksum_start(&hash);
  for (size_t i = 0; i < n; i += step)
    kf_checksum_add(&hash, text + i, n - i < step ? n - i : step);
  return kf_checksum_value(&hash);
}

TEST(checksum) {
  /* Published values of XXH64 with seed 0. */
  assert_true(hash_of("", 0, 1) == 0xEF46DB3751D8E999u);
  assert_true(hash_of("a", 1, 1) == 0xD24EC4F1A98C6E5Bu);
  assert_true(hash_of("abc", 3, 3) == 0x44BC2CF5AD770999u);
  const char *long_text = "Nobody inspects the spammish repetition, and nobody will inspect this.";
  size_t n = strlen(long_text);
  for (size_t step = 1; step < n; step++)
    assert_true(hash_of(long_text, n, step) == hash_of(long_text, n, n));
}

/* --- names and dictionaries ------------------------------------------------------------------- */

TEST(dict_grows) {
  enum { N = 5000 };
  static char keys[N][8];
  AUTO(kf_dict) *map = kf_dict_new(1);
  assert_non_null(map);
  for (uint32_t i = 0; i < N; i++) {
    snprintf(keys[i], sizeof keys[i], "%x", i * 7);
    assert_int_equal(kf_dict_find(map, keys[i], strlen(keys[i])), -1);
    assert_true(kf_dict_add(map, keys[i], strlen(keys[i]), i));
  }
  for (uint32_t i = 0; i < N; i++) assert_int_equal(kf_dict_find(map, keys[i], strlen(keys[i])), i);
}

TEST(sizes) {
  uint64_t out;
  assert_false(kf_mul_u64(UINT64_MAX, 2, &out));
  assert_false(kf_add_u64(UINT64_MAX, 1, &out));
  assert_true(kf_mul_u64(UINT32_MAX, UINT32_MAX, &out));
  assert_null(kf_alloc(UINT64_MAX, 2));
  assert_null(kf_alloc(UINT64_MAX, 1));
  AUTOFREE void *nothing = kf_alloc(0, 8);
  assert_non_null(nothing);
}

TEST(arena) {
  kf_arena a = {0};
  char *bytes[40];
  for (int i = 0; i < 40; i++) {
    KF_TAKE(&a, bytes[i], (uint64_t)i);
    assert_non_null(bytes[i]);
    assert_int_equal((uintptr_t)bytes[i] % 64, 0);
    memset(bytes[i], i, (size_t)i);
  }
  double *zeros;
  KF_TAKE_ZERO(&a, zeros, 1000);
  for (int i = 0; i < 1000; i++) assert_true(zeros[i] == 0);
  for (int i = 0; i < 40; i++)
    for (int k = 0; k < i; k++) assert_int_equal(bytes[i][k], i);
  assert_false(a.failed);
  /* After one failure all further allocations fail, so one final check suffices. */
  KF_TAKE(&a, zeros, UINT64_MAX);
  assert_null(zeros);
  assert_true(a.failed);
  KF_TAKE(&a, zeros, 1);
  assert_null(zeros);
  kf_arena_free(&a);
  assert_false(a.failed);
  kf_arena_free(&a);
  KF_TAKE(&a, zeros, 1);
  assert_non_null(zeros);
  kf_arena_free(&a);
}

TEST(classes_are_matched) {
  char *abc[] = {"a", "b", "c"}, *cxa[] = {"c", "x", "a", "y"};
  kf_names none = {0}, three = {3, abc}, four = {4, cxa};
  kf_classes named = {"the model", 3, &three}, others = {"the text", 4, &four};
  kf_classes numbers = {"the data", 5, &none}, fewer = {"the labels", 2, &none};
  int32_t place[5];
  kf_err err;
  assert_int_equal(kf_match_classes(&others, &named, place, &err), KF_OK);
  assert_memory_equal(place, ((int32_t[]){2, -1, 0, -1}), 4 * sizeof *place);
  assert_int_equal(kf_match_classes(&numbers, &fewer, place, &err), KF_OK);
  assert_memory_equal(place, ((int32_t[]){0, 1, -1, -1, -1}), 5 * sizeof *place);
  for (int side = 0; side < 2; side++) {
    const kf_classes *from = side ? &numbers : &named, *to = side ? &named : &numbers;
    assert_int_equal(kf_match_classes(from, to, place, &err), KF_ERR_DATA);
    assert_int_equal(err.hint, KF_HINT_CLASSES);
    assert_string_equal(err.message,
                        "the classes of the model have names, those of the data only numbers");
  }
  cxa[1] = "c";
  assert_int_equal(kf_match_classes(&named, &others, place, &err), KF_ERR_DATA);
  assert_non_null(strstr(err.message, "appears twice"));
}

/* --- threads ---------------------------------------------------------------------------------- */

typedef struct counting {
  atomic_int seen[1000];
  atomic_size_t highest_worker;
  size_t fail_from;
} counting;

static kf_status count(void *argument, size_t i, size_t worker, kf_err *err) {
  counting *c = argument;
  atomic_fetch_add(&c->seen[i], 1);
  size_t highest = atomic_load(&c->highest_worker);
  while (worker > highest && !atomic_compare_exchange_weak(&c->highest_worker, &highest, worker)) {
  }
  if (i >= c->fail_from) return kf_fail(err, KF_ERR_DATA, "task %zu", i);
  return KF_OK;
}

TEST(parallel) {
  for (unsigned threads = 1; threads <= 7; threads += 2) {
    AUTO(kf_ctx) *ctx = test_ctx(threads, KF_ISA_AUTO);
    for (int round = 0; round < 200; round++) {
      static counting c;
      memset(&c, 0, sizeof c);
      c.fail_from = 1000;
      size_t n = (size_t)round * 5;
      assert_ok(ctx, kf_parallel(ctx, n, count, &c));
      for (size_t i = 0; i < 1000; i++) assert_int_equal(atomic_load(&c.seen[i]), i < n);
      assert_true(atomic_load(&c.highest_worker) < threads);
      assert_ok(ctx, kf_parallel_limited(ctx, 2, n, count, &c));
      /* The lowest failure is the one reported, whatever the timing. */
      c.fail_from = 17;
      if (n > 17) assert_error(ctx, KF_ERR_DATA, "task 17", kf_parallel(ctx, n, count, &c));
    }
  }
}

static kf_status add_one(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  int *done = argument;
  done[i]++;
  return KF_OK;
}

/* Jobs that end before a worker wakes up: each task runs once, and the caller sees its effect. With
 * two threads the worker may spin. */
TEST(short_jobs) {
  for (unsigned threads = 2; threads <= 4; threads++) {
    AUTO(kf_ctx) *ctx = test_ctx(threads, KF_ISA_AUTO);
    for (int round = 0; round < 5000; round++) {
      int done[5] = {0};
      size_t n = 2 + (size_t)round % 4;
      if (round % 500 == 499) usleep(300); /* until the workers sleep */
      assert_ok(ctx, kf_parallel_limited(ctx, 1 + (size_t)round % 3, n, add_one, done));
      for (size_t i = 0; i < 5; i++) assert_int_equal(done[i], i < n);
    }
  }
}

/* The first failure in time is not the one reported. */
static kf_status fail_late(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)argument;
  (void)worker;
  if (i == 0) usleep(30000); /* fails after task 1 has */
  if (i == 2) usleep(60000); /* and before task 2 does, where that was started */
  return kf_fail(err, KF_ERR_DATA, "task %zu", i);
}

TEST(lowest_failure) {
  AUTO(kf_ctx) *ctx = test_ctx(3, KF_ISA_AUTO);
  for (int round = 0; round < 3; round++)
    assert_error(ctx, KF_ERR_DATA, "task 0", kf_parallel(ctx, 3, fail_late, NULL));
}

static int stop_at_once(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)user;
  (void)what;
  (void)done;
  (void)total;
  return 1;
}

TEST(cancelled) {
  AUTO(kf_ctx) *ctx = NULL;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 2, .progress = stop_at_once}, &ctx),
                   KF_OK);
  AUTO(kf_data) *data = NULL;
  kf_stats *s;
  assert_ok(ctx, kf_synth_open(ctx, &(kf_synth_options){.classes = 50, .dim = 64}, &data));
  assert_error(ctx, KF_ERR_CANCELLED, "stats", kf_stats_new_from_data(ctx, data, NULL, &s));
  const char *folder = test_folder();
  assert_int_equal(kf_data_save(ctx, data, KF_F32, test_path(folder, "x.safetensors")),
                   KF_ERR_CANCELLED);
  assert_int_equal(test_entries(folder), 0);
  test_remove(folder);
}

/* --- files ------------------------------------------------------------------------------------ */

TEST(whole_or_absent) {
  const char *folder = test_folder(), *path = test_path(folder, "file");
  kf_err err;
  kf_out out;
  assert_int_equal(kf_out_open(&out, NULL, path, &err), KF_OK);
  assert_int_equal(kf_out_write(&out, "half", 4, &err), KF_OK);
  kf_out_abort(&out);
  assert_int_equal(test_entries(folder), 0);

  assert_int_equal(kf_out_open(&out, NULL, path, &err), KF_OK);
  assert_int_equal(kf_out_write(&out, "xxole", 5, &err), KF_OK);
  assert_int_equal(kf_out_write_at(&out, 0, "wh", 2, &err), KF_OK);
  assert_int_equal(access(path, F_OK), -1); /* not before it is complete */
  assert_int_equal(kf_out_commit(&out, &err), KF_OK);
  size_t n;
  AUTOFREE char *bytes = test_read(path, &n);
  assert_int_equal(n, 5);
  assert_memory_equal(bytes, "whole", 5);
  free(bytes);

  const char *taken = test_path(folder, "taken"); /* a folder appears under the name meanwhile */
  assert_int_equal(kf_out_open(&out, NULL, taken, &err), KF_OK);
  assert_int_equal(mkdir(taken, 0777), 0);
  assert_int_equal(kf_out_commit(&out, &err), KF_ERR_IO);
  assert_int_equal(rmdir(taken), 0);
  assert_int_equal(test_entries(folder), 1);

  assert_int_equal(kf_out_open(&out, NULL, path, &err), KF_OK); /* an older file stays until then */
  assert_int_equal(kf_out_write(&out, "new", 3, &err), KF_OK);
  kf_out_abort(&out);
  bytes = test_read(path, &n);
  assert_memory_equal(bytes, "whole", 5);
  assert_int_equal(test_entries(folder), 1);
  test_remove(folder);
}

/* All lengths around the buffer size, in several writes. */
TEST(long_files) {
  const char *folder = test_folder(), *path = test_path(folder, "file");
  static char piece[700001];
  for (size_t i = 0; i < sizeof piece; i++) piece[i] = (char)(i * 31 >> 3);
  kf_err err;
  kf_out out;
  assert_int_equal(kf_out_open(&out, NULL, path, &err), KF_OK);
  for (int i = 0; i < 5; i++)
    assert_int_equal(kf_out_write(&out, piece, sizeof piece, &err), KF_OK);
  assert_int_equal(kf_out_commit(&out, &err), KF_OK);
  kf_in in;
  static char back[sizeof piece];
  assert_int_equal(kf_in_open(&in, path, &err), KF_OK);
  assert_int_equal(in.size, 5 * sizeof piece);
  for (uint64_t i = 0; i < 5; i++) {
    assert_int_equal(kf_in_read(&in, i * sizeof piece, back, sizeof back, &err), KF_OK);
    assert_memory_equal(piece, back, sizeof back);
  }
  assert_int_equal(kf_in_read(&in, 4 * sizeof piece + 1, back, sizeof back, &err), KF_ERR_DATA);
  kf_in_close(&in);
  test_remove(folder);
}

static void write_file(const char *path, const char *text) {
  kf_err err;
  kf_out out;
  assert_int_equal(kf_out_open(&out, NULL, path, &err), KF_OK);
  assert_int_equal(kf_out_write(&out, text, strlen(text), &err), KF_OK);
  assert_int_equal(kf_out_commit(&out, &err), KF_OK);
}

static int folders_closed;

static void close_folder(int fd) {
  folders_closed++;
  close(fd);
}

/* A parked file holds no descriptor and can be read while it is the same file, even if its folder
 * moves. */
TEST(parked_files) {
  const char *outer = test_folder(), *folder = test_path(outer, "a"),
             *moved = test_path(outer, "b");
  const char *path = test_path(outer, "a/file");
  assert_int_equal(mkdir(folder, 0700), 0);
  for (int what = 0; what < 4; what++) {
    char back[8] = "";
    kf_err err;
    kf_in in;
    write_file(path, "whole words");
    assert_int_equal(kf_in_open(&in, path, &err), KF_OK);
    int fd = in.fd;
    kf_folder *held = kf_folder_new(open(folder, O_RDONLY | O_DIRECTORY), close_folder);
    assert_non_null(held);
    kf_in_park(&in, held);
    kf_folder_release(held);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(rename(folder, moved), 0);
    assert_true(kf_in_unchanged(&in));
    assert_int_equal(kf_in_read(&in, 6, back, 5, &err), KF_OK);
    assert_string_equal(back, "words");
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(kf_in_read(&in, 8, back, 5, &err), KF_ERR_DATA);
    assert_int_equal(rename(moved, folder), 0);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    struct timespec later[2] = {info.st_atim, {info.st_mtim.tv_sec + 1, info.st_mtim.tv_nsec}};
    if (what == 0) write_file(path, "other words"); /* another file, of the same length */
    if (what == 1) assert_int_equal(truncate(path, 4), 0);
    if (what == 2) assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    if (what == 3) assert_int_equal(unlink(path), 0);
    assert_false(kf_in_unchanged(&in));
    assert_int_equal(kf_in_read(&in, 6, back, 5, &err), KF_ERR_DATA);
    assert_non_null(strstr(err.message, "changed since it was opened"));
    assert_int_equal(folders_closed, what);
    kf_in_close(&in);
    assert_int_equal(folders_closed, what + 1);
  }
  test_remove(outer);
}

/* A write that the system refuses (here by a limit on file sizes, as a full disk would) is an I/O
 * error; the older file stays and nothing else is left. */
TEST(refused_writes) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL;
  AUTO(kf_model) *m = NULL;
  assert_ok(ctx, kf_synth_open(ctx, &(kf_synth_options){.classes = 9, .dim = 40}, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &s));
  assert_ok(ctx, kf_fit_stats(ctx, s, paper(), &m));
  const char *folder = test_folder(), *path = test_path(folder, "x.safetensors");
  assert_ok(ctx, kf_model_save(ctx, m, path));
  size_t before, after;
  AUTOFREE char *old = test_read(path, &before);
  struct rlimit limit, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = limit;
  small.rlim_cur = 4096;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  assert_error(ctx, KF_ERR_IO, path, kf_stats_save(ctx, s, path));
  assert_error(ctx, KF_ERR_IO, path, kf_model_save(ctx, m, path));
  assert_error(ctx, KF_ERR_IO, path, kf_data_save(ctx, data, KF_F32, path));
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  AUTOFREE char *now = test_read(path, &after);
  assert_int_equal(before, after);
  assert_memory_equal(old, now, before);
  assert_int_equal(test_entries(folder), 1);
  test_remove(folder);
  assert_error(ctx, KF_ERR_IO, "no-such-folder",
               kf_model_save(ctx, m, "/no-such-folder/m.safetensors"));
  assert_error(ctx, KF_ERR_ARG, ".safetensors", kf_model_save(ctx, m, "/dev/full"));
}

/* A link stays a link, and a private file stays private. */
TEST(links_and_permissions) {
  const char *folder = test_folder(), *path = test_path(folder, "file"),
             *link = test_path(folder, "link");
  kf_err err;
  kf_out out;
  for (int round = 0; round < 2; round++) {
    assert_int_equal(kf_out_open(&out, NULL, round == 0 ? path : link, &err), KF_OK);
    assert_int_equal(kf_out_write(&out, round == 0 ? "old" : "new", 3, &err), KF_OK);
    assert_int_equal(kf_out_commit(&out, &err), KF_OK);
    if (round == 0) {
      assert_int_equal(chmod(path, 0600), 0);
      assert_int_equal(symlink("file", link), 0);
    }
  }
  struct stat info;
  assert_int_equal(lstat(link, &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_int_equal(lstat(path, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0600);
  size_t n;
  AUTOFREE char *bytes = test_read(path, &n);
  assert_memory_equal(bytes, "new", 3);
  assert_int_equal(test_entries(folder), 2);
  test_remove(folder);
}

TEST(whole_files) {
  const char *folder = test_folder();
  AUTOFREE char *joined = kf_path_join(folder, "five");
  assert_string_equal(joined, test_path(folder, "five"));
  FILE *file = fopen(joined, "w");
  assert_non_null(file);
  fputs("12345", file);
  fclose(file);
  kf_err err;
  char *text;
  uint64_t length;
  assert_int_equal(kf_read_file(joined, 5, &text, &length, &err), KF_OK);
  assert_int_equal(length, 5);
  assert_string_equal(text, "12345");
  kf_free(text);
  assert_int_equal(kf_read_file(joined, 4, &text, &length, &err), KF_ERR_DATA);
  assert_non_null(strstr(err.message, "has 5 bytes, more than the limit of 4"));
  kf_free(joined);
  joined = kf_path_join("a/", "b");
  assert_string_equal(joined, "a/b");
  kf_free(joined);
  joined = kf_path_join("", "b");
  assert_string_equal(joined, "b");
  test_remove(folder);
}

TEST(what_is_no_file) {
  kf_err err;
  kf_in in;
  assert_int_equal(kf_in_open(&in, "/", &err), KF_ERR_DATA);
  assert_non_null(strstr(err.message, "directory"));
  assert_int_equal(kf_in_open(&in, "/dev/null", &err), KF_ERR_DATA);
  assert_int_equal(kf_in_open(&in, "/nowhere/x", &err), KF_ERR_IO);
  assert_non_null(strstr(err.message, "No such file"));
}

/* A required argument that is NULL is an error, not a crash. */
TEST(null_arguments) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  kf_stats *s;
  kf_model *m;
  kf_lambda l;
  kf_eval_result r;
  kf_info *info;
  int32_t found;
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_stats_new(ctx, 3, 2, NULL, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_stats_new_from_data(ctx, NULL, NULL, &s));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_stats_merge(ctx, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_stats_load(ctx, NULL, &s));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_stats_scatter(ctx, NULL, NULL, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_fit_stats(ctx, NULL, paper(), &m));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_model_load(ctx, NULL, &m));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_lambda_parse(ctx, NULL, &l));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_classify(ctx, NULL, NULL, 1, NULL, &found, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_eval(ctx, NULL, NULL, NULL, &r));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_info_read(ctx, NULL, &info));
  assert_int_equal(kf_fit_stats(NULL, NULL, paper(), &m), KF_ERR_ARG);
  const char *const twice[] = {"a", "a"}, *const none[] = {"a", NULL},
                    *const bytes[] = {"a", "\xff"};
  assert_error(ctx, KF_ERR_ARG, "twice", kf_stats_new(ctx, 3, 2, twice, NULL, &s));
  assert_error(ctx, KF_ERR_ARG, "name 1", kf_stats_new(ctx, 3, 2, none, NULL, &s));
  assert_error(ctx, KF_ERR_ARG, "UTF-8", kf_stats_new(ctx, 3, 2, bytes, NULL, &s));
}

TEST(messages) {
  kf_err err;
  /* A name from a hostile file must not reach the terminal as an escape sequence. */
  kf_fail(&err, KF_ERR_DATA, "class '%s'", "\x1b[31mred\n\x7f.");
  assert_string_equal(err.message, "class '\\x1b[31mred\\n\\x7f.'");
  kf_fail_file(&err, "a\u202Eb", "class '%s'", "\xc2\x9bx\xff");
  assert_string_equal(err.message, "a\\u{202e}b: class '\\u{9b}x\\xff'");
  char many[2000]; /* escapes are longer than the characters, and none is cut */
  memset(many, 1, sizeof many - 1);
  many[sizeof many - 1] = '\0';
  kf_fail(&err, KF_ERR_DATA, "%s", many);
  assert_int_equal(strlen(err.message), (sizeof err.message - 1) / 4 * 4);
  assert_string_equal(kf_status_name(KF_ERR_MATH), "no solution");
  assert_string_equal(kf_status_name((kf_status)99), "unknown status");
  assert_string_equal(kf_errmsg(NULL), "");
  assert_string_equal(kf_version(), KF_VERSION);
}

static void assert_shown(const char *text, const char *wanted) {
  char out[256], exact[512] = "", piece[KF_SHOWN_SIZE];
  kf_escape_message(text, out, sizeof out);
  assert_string_equal(out, wanted);
  for (size_t at = 0; text[at] != '\0';) { /* a table doubles backslashes and can be read back */
    if (text[at] == '\\') strcat(exact, "\\");
    kf_escape_next(text, &at, piece);
    strcat(exact, piece);
  }
  kf_string back = {0};
  kf_unescape(exact, strlen(exact), &back);
  assert_false(back.failed);
  assert_int_equal(back.n, strlen(text));
  assert_memory_equal(back.data, text, back.n);
  kf_string_clear(&back);
}

/* Control and invisible characters are escaped; everything else stays. */
TEST(escapes) {
  static const char *const plain[] = {"", "red fox", "C:\\new", "caf\u00E9", "\u732B", "\u20AC",
                                      "\u202F", "\U0001F408", "e\u0301", "\u2764\uFE0F",
                                      /* joiners of a Persian word and of an emoji */
                                      "\u0645\u06CC\u200C\u0634\u0648\u062F",
                                      "\U0001F469\u200D\U0001F52C"};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) assert_shown(plain[i], plain[i]);
  assert_shown("\t\n\r\x01\x1b\x7f", "\\t\\n\\r\\x01\\x1b\\x7f");
  assert_shown("a\xc2\x80\xc2\x9f\u00A0", "a\\u{80}\\u{9f}\u00A0");
  assert_shown("\u202Ax\u202E\u2066\u2069", "\\u{202a}x\\u{202e}\\u{2066}\\u{2069}");
  assert_shown("\u200E\u200F\u061C", "\\u{200e}\\u{200f}\\u{61c}");
  assert_shown("fo\u200Dx\u200B\u2060\uFEFF\u00AD",
               "fo\\u{200d}x\\u{200b}\\u{2060}\\u{feff}\\u{ad}");
  assert_shown("\u2028\u2029\U000E0041", "\\u{2028}\\u{2029}\\u{e0041}");
  assert_shown("\u200D\u732B\u200C", "\\u{200d}\u732B\\u{200c}"); /* nothing to join */
  assert_shown("\u732B\u200D\u202E", "\u732B\\u{200d}\\u{202e}");
  assert_shown("\xff\xe2\x80z\xc3", "\\xff\\xe2\\x80z\\xc3");
  assert_shown("\xe2\x80\xe2\x80\xae", "\\xe2\\x80\\u{202e}");
}

/* Text that is not an escape stays as it is. */
TEST(unescapes) {
  static const char *const same[] = {"\\",     "\\q",       "\\u",          "\\u{}",
                                     "\\u{12", "\\u{d800}", "\\u{1100000}", "\\u{1234567}",
                                     "\\u{g}", "\\x1"};
  kf_string back = {0};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    kf_unescape(same[i], strlen(same[i]), &back);
    assert_string_equal(back.data, same[i]);
  }
  kf_string_clear(&back);
}

/* After any failure the out parameter is NULL, not its old value. */
TEST(nothing_on_failure) {
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO), *other = (kf_ctx *)0x1;
  kf_model *model = (kf_model *)0x1;
  kf_fit_report *report = (kf_fit_report *)0x1;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.reserved = {1}}, &other), KF_ERR_ARG);
  assert_null(other);
  assert_int_equal(kf_fit(NULL, NULL, NULL, &model, &report), KF_ERR_ARG);
  assert_null(model);
  assert_null(report);
  const float rows[] = {1, 2, 3, 4}; /* one class: a fit that fails late */
  const int32_t labels[] = {0, 0};
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, 2, 2, labels, NULL, 1, &data));
  model = (kf_model *)0x1;
  report = (kf_fit_report *)0x1;
  assert_int_not_equal(kf_fit(ctx, data, NULL, &model, &report), KF_OK);
  assert_null(model);
  assert_null(report);
  kf_class_set *groups[KF_GROUPS];
  memset(groups, 1, sizeof groups);
  assert_int_equal(kf_class_groups_new(ctx, NULL, NULL, NULL, groups), KF_ERR_ARG);
  for (size_t g = 0; g < KF_GROUPS; g++) assert_null(groups[g]);
  kf_ctx_free(ctx);
}

/* A hint stays until the next call and never outlives its error. */
TEST(hints) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  const float zero[4] = {0};
  float row[4];
  AUTO(kf_data) *data = NULL;
  assert_int_equal(kf_errhint(NULL), KF_HINT_NONE);
  assert_int_equal(kf_errhint(ctx), KF_HINT_NONE);
  assert_ok(ctx, kf_data_open_memory(ctx, zero, 1, 4, NULL, NULL, 0, &data));
  assert_error(ctx, KF_ERR_DATA, "row 0: every column is zero",
               kf_data_get(ctx, data, 0, 1, row, NULL));
  assert_int_equal(kf_errhint(ctx), KF_HINT_SKIP_BAD);
  assert_error(ctx, KF_ERR_ARG, "past the end", kf_data_get(ctx, data, 1, 1, row, NULL));
  assert_int_equal(kf_errhint(ctx), KF_HINT_NONE);
  assert_int_equal(kf_data_get(ctx, data, 0, 1, row, NULL), KF_ERR_DATA);
  assert_ok(ctx, kf_data_get(ctx, data, 0, 0, row, NULL));
  assert_int_equal(kf_errhint(ctx), KF_HINT_NONE);
}

/* Options of a newer header, whose members this library does not know. */
TEST(reserved_space) {
  AUTO(kf_ctx) *ctx = NULL;
  kf_ctx_options of_ctx = {.reserved = {[3] = 1}};
  assert_int_equal(kf_ctx_new(&of_ctx, &ctx), KF_ERR_ARG);
  assert_null(ctx);
  ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL;
  kf_stats *stats;
  const char *path = "absent.npy";
  kf_data_options of_data = {.reserved = {[3] = 1}};
  assert_error(ctx, KF_ERR_ARG, "kf_data_open: options use reserved",
               kf_data_open(ctx, &path, 1, &of_data, &data));
  kf_synth_options of_synth = {.classes = 3, .dim = 8};
  of_synth.reserved[0] = 1;
  assert_error(ctx, KF_ERR_ARG, "reserved", kf_synth_open(ctx, &of_synth, &data));
  assert_error(ctx, KF_ERR_ARG, "reserved", kf_synth_open_text(ctx, &of_synth, &data));
  kf_stats_options of_stats = {.reserved = {[2] = 1}};
  assert_error(ctx, KF_ERR_ARG, "kf_stats_new: options",
               kf_stats_new(ctx, 8, 2, NULL, &of_stats, &stats));
  of_synth.reserved[0] = 0;
  assert_ok(ctx, kf_synth_open(ctx, &of_synth, &data));
  assert_error(ctx, KF_ERR_ARG, "reserved", kf_stats_new_from_data(ctx, data, &of_stats, &stats));
}
