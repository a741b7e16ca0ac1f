/* test_npz.c - archives of arrays: which array is meant, and invalid archives. Those of NumPy,
 * stored and deflated, are in tests/cli/test_labels.py. */
#include "files.h"

#include "file/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const float six[6] = {1, 2, 3, 4, 5, 6};

/* --- writing archives ------------------------------------------------------------------------ */

/* A member, and what is wrong with it. */
typedef struct member {
  const char *name;
  const char *type, *shape;
  const void *data;
  size_t n;
  unsigned method, flags, crc_off, size_off, header_off;
  const char *local_name; /* NULL: the same */
} member;

typedef struct archive {
  unsigned char bytes[8192];
  size_t n;
} archive;

static void put(archive *a, uint64_t value, int size) {
  for (int i = 0; i < size; i++) a->bytes[a->n++] = (unsigned char)(value >> 8 * i);
}

static void put_bytes(archive *a, const void *bytes, size_t n) {
  if (n > 0) memcpy(a->bytes + a->n, bytes, n);
  a->n += n;
}

static uint32_t crc_of(const unsigned char *bytes, size_t n) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < n; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
  }
  return ~crc;
}

/* Method, flags and so on, as both headers have them. */
static void put_common(archive *a, const member *m, uint32_t crc, uint64_t size, int wide) {
  put(a, 45, 2);
  put(a, m->flags, 2);
  put(a, m->method, 2);
  put(a, 0, 4);
  put(a, crc + m->crc_off, 4);
  put(a, wide ? UINT32_MAX : size, 4);
  put(a, wide ? UINT32_MAX : size + m->size_off, 4);
}

/* wide: sizes and offsets of 64 bits, as NumPy writes for large archives. */
static const char *write_npz(const char *name, const member *members, size_t n, int wide) {
  static archive a;
  uint64_t headers[8], sizes[8];
  uint32_t crcs[8];
  a.n = 0;
  for (size_t i = 0; i < n; i++) {
    const member *m = &members[i];
    size_t bytes_n = 0;
    AUTOFREE char *bytes =
        test_read(write_npy("member.npy", m->type, m->shape, m->data, m->n), &bytes_n);
    const char *own = m->local_name != NULL ? m->local_name : m->name;
    headers[i] = a.n;
    sizes[i] = bytes_n;
    crcs[i] = crc_of((unsigned char *)bytes, bytes_n);
    put_bytes(&a, "PK\3\4", 4);
    put_common(&a, m, crcs[i], bytes_n, wide);
    put(&a, strlen(own), 2);
    put(&a, 0, 2);
    put_bytes(&a, own, strlen(own));
    put_bytes(&a, bytes, bytes_n);
  }
  uint64_t directory = a.n;
  for (size_t i = 0; i < n; i++) {
    const member *m = &members[i];
    put_bytes(&a, "PK\1\2", 4);
    put(&a, 45, 2);
    put_common(&a, m, crcs[i], sizes[i], wide);
    put(&a, strlen(m->name), 2);
    put(&a, wide ? 4 + 24 : 0, 2);
    put(&a, 0, 2);
    put(&a, 0, 2);
    put(&a, 0, 6);
    put(&a, wide ? UINT32_MAX : headers[i] + m->header_off, 4);
    put_bytes(&a, m->name, strlen(m->name));
    if (!wide) continue;
    put(&a, 1, 2);
    put(&a, 24, 2);
    put(&a, sizes[i] + m->size_off, 8);
    put(&a, sizes[i], 8);
    put(&a, headers[i] + m->header_off, 8);
  }
  uint64_t size = a.n - directory, end = a.n;
  if (wide) {
    put_bytes(&a, "PK\6\6", 4);
    put(&a, 44, 8);
    put(&a, 45, 2);
    put(&a, 45, 2);
    put(&a, 0, 8);
    put(&a, n, 8);
    put(&a, n, 8);
    put(&a, size, 8);
    put(&a, directory, 8);
    put_bytes(&a, "PK\6\7", 4);
    put(&a, 0, 4);
    put(&a, end, 8);
    put(&a, 1, 4);
  }
  put_bytes(&a, "PK\5\6", 4);
  put(&a, 0, 4);
  put(&a, wide ? UINT16_MAX : n, 2);
  put(&a, wide ? UINT16_MAX : n, 2);
  put(&a, wide ? UINT32_MAX : size, 4);
  put(&a, wide ? UINT32_MAX : directory, 4);
  put(&a, 0, 2);
  return write_bytes(name, a.bytes, a.n);
}

#define X                                                                                          \
  { .name = "x.npy", .type = "<f4", .shape = "(3, 2)", .data = six, .n = 24 }
static const int64_t y3[3] = {1, 0, 1}, z2[2] = {1, 0};
#define Y                                                                                          \
  { .name = "y.npy", .type = "<i8", .shape = "(3,)", .data = y3, .n = 24 }

static void assert_set(const char *path, const kf_data_options *options, int labelled) {
  AUTO(kf_data) *data = must_open(path, options);
  float rows[6];
  int32_t labels[3];
  assert_int_equal(kf_data_rows(data), 3);
  assert_int_equal(kf_data_has_labels(data), labelled);
  assert_ok(ctx, kf_data_get(ctx, data, 0, 3, rows, labels));
  assert_memory_equal(rows, six, sizeof six);
  for (int i = 0; labelled && i < 3; i++) assert_int_equal(labels[i], y3[i]);
}

/* --- tests ----------------------------------------------------------------------------------- */

TEST(rows_and_labels) {
  const member set[] = {
      X, Y, {.name = "z.npy", .type = "<i8", .shape = "(2,)", .data = z2, .n = 16}};
  for (int wide = 0; wide < 2; wide++) {
    const char *path = write_npz("a.npz", set, 3, wide);
    assert_set(path, NULL, 1);
    assert_set(at("a.npz:x"), NULL, 1);
    assert_set(at("a*.npz:x"), NULL, 1);
    assert_set(path, &(kf_data_options){.tensor = "x", .label_tensor = "y"}, 1);
    assert_set(path, &(kf_data_options){.inner_labels = KF_OFF}, 0);
    const char *labels[] = {at("a.npz:y")}, *only[] = {at("a.npz")};
    const char *rows = write_npy("rows.npy", "<f4", "(3, 2)", six, 24);
    assert_set(rows, &(kf_data_options){.labels = labels, .n_labels = 1}, 1);
    assert_set(rows, &(kf_data_options){.labels = only, .n_labels = 1}, 1);
    AUTO(kf_data) *data = must_open(path, NULL);
    assert_int_equal(kf_data_reads(data, path), 1); /* an archive is not overwritten */
  }
  /* Two arrays of one archive are two files. */
  const member two[] = {X,
                        {.name = "w.npy", .type = "<f4", .shape = "(3, 2)", .data = six, .n = 24}};
  write_npz("two.npz", two, 2, 0);
  const char *const both[] = {at("two.npz:x"), at("two.npz:w")};
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_data_open(ctx, both, 2, NULL, &data));
  assert_int_equal(kf_data_rows(data), 6);
}

TEST(which_array) {
  const member two[] = {X,
                        {.name = "w.npy", .type = "<f4", .shape = "(3, 2)", .data = six, .n = 24},
                        Y,
                        {.name = "v.npy", .type = "<i8", .shape = "(3,)", .data = y3, .n = 24}};
  const char *path = write_npz("b.npz", two, 4, 0);
  assert_refused(
      path, NULL, KF_ERR_DATA,
      "several arrays are matrices of floats; the archive holds 'v' (3 <i8), 'w' (3 x 2 <f4)");
  assert_int_equal(kf_errhint(ctx), KF_HINT_TENSOR);
  assert_refused(at("b.npz"), &(kf_data_options){.tensor = "x"}, KF_ERR_DATA,
                 "several arrays could be the labels");
  assert_int_equal(kf_errhint(ctx), KF_HINT_LABEL_TENSOR);
  assert_set(at("b.npz:x"), &(kf_data_options){.label_tensor = "v"}, 1);
  kf_data *data;
  const char *nothing = at("b.npz:q"), *list = at("b.npz:y");
  assert_failed(kf_data_open(ctx, &nothing, 1, NULL, &data), KF_ERR_DATA, "b.npz", "no array 'q'");
  assert_failed(kf_data_open(ctx, &list, 1, NULL, &data), KF_ERR_DATA, "b.npz:y", "2 dimensions");
  assert_refused(write_npz("c.npz", (member[]){Y}, 1, 0), NULL, KF_ERR_DATA,
                 "no array is a matrix of floats");
  assert_refused(
      write_npz("c.npz",
                (member[]){{.name = "x.npy", .type = "|O", .shape = "(3,)", .data = "", .n = 0}}, 1,
                0),
      NULL, KF_ERR_DATA, "Python objects");
  const char *labels[] = {write_npz("c.npz", (member[]){X}, 1, 0)};
  const char *rows = write_npy("rows.npy", "<f4", "(3, 2)", six, 24);
  assert_failed(open_one(rows, &(kf_data_options){.labels = labels, .n_labels = 1}, &data),
                KF_ERR_DATA, "c.npz", "no array is a list");
}

TEST(bad_members) {
  const struct {
    member m;
    const char *cause;
  } cases[] = {
      {{.name = "x.npy", .crc_off = 1}, "checksum does not match"},
      {{.name = "x.npy", .flags = 1}, "is encrypted"},
      {{.name = "x.npy", .method = 14}, "packed by method 14"},
      {{.name = "x.npy", .size_off = 1}, "two different sizes"},
      {{.name = "x.npy", .method = 8, .size_off = 1 << 20}, "larger than it can be"},
      {{.name = "x.npy", .method = 8}, "the member 'x.npy'"}, /* damaged, or zlib is not there */
      {{.name = "x.npy", .header_off = 1}, "not where the directory says"},
      {{.name = "x.npy", .header_off = 1u << 30}, "outside the file"},
      {{.name = "x.npy", .local_name = "z.npy"}, "another name"},
      {{.name = "x.txt"}, "holds no .npy"},
      {{.name = "\xff.npy"}, "not UTF-8"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    member m = cases[i].m;
    m.type = "<f4";
    m.shape = "(3, 2)";
    m.data = six;
    m.n = 24;
    assert_refused(write_npz("bad.npz", &m, 1, 0), NULL, KF_ERR_DATA, cases[i].cause);
  }
  const member twice[] = {X, X};
  assert_refused(write_npz("bad.npz", twice, 2, 0), NULL, KF_ERR_DATA, "holds 'x.npy' twice");
}

/* Every prefix is refused, and so is every archive with one more byte before or after it. No
 * changed byte causes a read outside of it; it is refused, or does not matter. */
TEST(damaged) {
  for (int wide = 0; wide < 2; wide++) {
    const member set[] = {X, Y};
    size_t n = 0;
    AUTOFREE char *bytes = test_read(write_npz("whole.npz", set, 2, wide), &n);
    kf_data *data;
    for (size_t cut = 1; cut < n; cut++) {
      const char *path = write_bytes("cut.npz", bytes, cut);
      assert_int_equal(open_one(path, NULL, &data), KF_ERR_DATA);
    }
    assert_refused(write_two("long.npz", "x", 1, bytes, n), NULL, KF_ERR_DATA, "not");
    assert_refused(write_two("long.npz", bytes, n, "x", 1), NULL, KF_ERR_DATA, "no directory");
    for (size_t i = 0; i < n; i++) {
      bytes[i] ^= 0x41;
      if (open_one(write_bytes("flip.npz", bytes, n), NULL, &data) == KF_OK) kf_data_free(data);
      bytes[i] ^= 0x41;
    }
  }
}

/* A deflated member that ends before its header does, whatever size the directory gives. */
TEST(ends_early) {
  static const unsigned char whole[12] = "\x93NUMPY\2\0\xff\xff\x0f";
  for (size_t n = 0; n <= sizeof whole; n++) {
    AUTOFREE unsigned char *bytes = malloc(n + 1); /* sanitizers see its end */
    memcpy(bytes, whole, n);
    kf_npy npy;
    kf_err err = {0};
    assert_int_equal(kf_npy_parse(&npy, "a", bytes, n, 1100000, &err), KF_ERR_DATA);
    if (n > 9) assert_non_null(strstr(err.message, "is too long"));
  }
}

/* --- where files need names ------------------------------------------------------ */

static struct {
  int without_name; /* the errno of O_TMPFILE; 0: it works */
  int removal;      /* the errno of unlink */
  int removed;      /* calls of unlink */
  int left;         /* empty files that it failed to remove */
  bool undisturbed; /* no signal could arrive meanwhile */
} calls;

#define REPLACED __attribute__((visibility("default")))

REPLACED int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  bool creates = (flags & (O_CREAT | O_TMPFILE)) != 0;
  unsigned mode = creates ? va_arg(list, unsigned) : 0;
  va_end(list);
  if (calls.without_name == 0 || (flags & O_TMPFILE) != O_TMPFILE)
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  errno = calls.without_name;
  return -1;
}

REPLACED int unlink(const char *path) {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  calls.undisturbed = sigismember(&now, SIGTERM) && sigismember(&now, SIGINT);
  calls.removed++;
  if (calls.removal == 0) return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  calls.left += info.st_size == 0;
  syscall(SYS_unlinkat, AT_FDCWD, path, 0); /* the test tidies up */
  errno = calls.removal;
  return -1;
}

TEST(briefly_named) {
  size_t n;
  AUTOFREE char *bytes = test_read(KOOFU_SOURCE_DIR "/fuzz/corpus/npz/deflated", &n);
  const char *path = write_bytes("deflated.npz", bytes, n);
  kf_data *data;
  sigset_t before, after;
  if (open_one(path, NULL, &data) != KF_OK) test_skip("zlib");
  kf_data_free(data);
  pthread_sigmask(SIG_SETMASK, NULL, &before);

  memset(&calls, 0, sizeof calls);
  calls.without_name = EOPNOTSUPP;
  assert_ok(ctx, open_one(path, NULL, &data));
  kf_data_free(data);
  assert_true(calls.removed > 0 && calls.undisturbed);

  /* After another failure no name is tried. */
  calls.without_name = EMFILE;
  calls.removed = 0;
  assert_int_equal(open_one(path, NULL, &data), KF_ERR_IO);
  assert_int_equal(calls.removed, 0);

  /* A file that keeps its name is not written to. */
  calls.without_name = EOPNOTSUPP;
  calls.removal = EIO;
  assert_int_equal(open_one(path, NULL, &data), KF_ERR_IO);
  assert_non_null(strstr(kf_errmsg(ctx), "there is no place to unpack them"));
  assert_int_equal(calls.left, 2); /* beside the archive, and in /tmp */
  memset(&calls, 0, sizeof calls);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
