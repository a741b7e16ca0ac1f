/* test_out.c - the writer of files: what each status means for the file, whichever system call
 * fails; several files together; locks; links and modes. System calls are replaced here by ones
 * that fail on demand. */
#include "base/base.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* --- calls that fail on demand ---------------------------------------------------------------- */

enum { FSYNC, RENAME, LINK, LINKAT, FLOCK, N_CALLS };
static struct {
  int calls, from, code, times; /* calls from number `from` on fail, `times` of them */
} faults[N_CALLS];

static bool fails(int call) {
  int i = faults[call].calls++;
  bool failing = faults[call].times > 0 && i >= faults[call].from &&
                 i < faults[call].from + faults[call].times;
  if (failing) errno = faults[call].code;
  return failing;
}

static void let_fail(int call, int from, int code, int times) {
  memset(faults, 0, sizeof faults);
  faults[call].from = from;
  faults[call].code = code;
  faults[call].times = times;
}

static void all_well(void) { memset(faults, 0, sizeof faults); }

#define REPLACED __attribute__((visibility("default")))
REPLACED int fsync(int fd) { return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd); }
REPLACED int rename(const char *from, const char *to) {
  return fails(RENAME) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
REPLACED int link(const char *from, const char *to) {
  return fails(LINK) ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
REPLACED int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
  return fails(LINKAT) ? -1 : (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
}
REPLACED int flock(int fd, int operation) {
  return fails(FLOCK) ? -1 : (int)syscall(SYS_flock, fd, operation);
}

/* --- what is shared --------------------------------------------------------------------------- */

static const char *folder;
static kf_ctx *ctx;
static char logged[8192];

static void hear(void *user, const char *message) {
  (void)user;
  snprintf(logged, sizeof logged, "%s", message);
}

static int start(void **state) {
  (void)state;
  folder = test_folder();
  logged[0] = '\0';
  all_well();
  return kf_ctx_new(&(kf_ctx_options){.threads = 1, .log = hear}, &ctx) == KF_OK ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  all_well();
  kf_ctx_free(ctx);
  test_remove(folder);
  return 0;
}

static const char *at(const char *name) { return test_path(folder, name); }

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void assert_text(const char *path, const char *text) {
  size_t n;
  AUTOFREE char *bytes = test_read(path, &n);
  assert_int_equal(n, strlen(text));
  assert_memory_equal(bytes, text, n);
}

static kf_status save(const char *path, const char *text) {
  kf_output *output;
  kf_status status = kf_output_open(ctx, path, &output);
  if (status != KF_OK) return status;
  status = kf_output_write(ctx, output, text, strlen(text));
  if (status != KF_OK) {
    kf_output_free(output);
    return status;
  }
  return kf_output_commit(ctx, output);
}

/* --- what a status means ---------------------------------------------------------------------- */

/* The folder is synced after the rename: whatever happens then, the new file is in its place, so
 * the call must not say that it is not. */
TEST(folder_that_cannot_be_synced) {
  write_text(at("x"), "old");
  let_fail(FSYNC, 1, EIO, 100);
  assert_ok(ctx, save(at("x"), "new"));
  assert_text(at("x"), "new");
  assert_non_null(strstr(logged, "a power failure may undo it"));
  assert_non_null(strstr(logged, at("x")));
  assert_int_equal(test_entries(folder), 1);
}

/* Whether it fails once or for good, each call leaves the old file, or succeeds and leaves the new
 * one. */
TEST(every_call_fails) {
  static const int codes[] = {EIO, ENOSPC, EDQUOT, EROFS, EPERM, ENOMEM};
  for (int call = 0; call <= LINKAT; call++)
    for (int from = 0; from < 3; from++)
      for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
        for (int times = 1; times <= 100; times += 99) {
          all_well();
          write_text(at("x"), "old");
          let_fail(call, from, codes[c], times);
          kf_status status = save(at("x"), "new");
          all_well();
          assert_text(at("x"), status == KF_OK ? "new" : "old");
          assert_int_equal(test_entries(folder), 1);
        }
}

/* An interrupting signal is not an error. */
TEST(interrupted_calls) {
  for (int call = 0; call <= LINKAT; call++)
    for (int from = 0; from < 2; from++) {
      let_fail(call, from, EINTR, 3);
      assert_ok(ctx, save(at("x"), "new"));
      assert_text(at("x"), "new");
      assert_string_equal(logged, "");
    }
  let_fail(FLOCK, 0, EINTR, 3);
  kf_guard guard;
  assert_int_equal(kf_guard_take(&guard, ctx, at("x")), KF_OK);
  kf_guard_release(&guard);
}

/* A failed write stays an error. */
TEST(errors_stay) {
  kf_output *output;
  assert_ok(ctx, kf_output_open(ctx, at("x"), &output));
  assert_ok(ctx, kf_output_write(ctx, output, "a", 1));
  assert_ok(ctx, kf_output_write_at(ctx, output, 4, "e", 1));
  assert_ok(ctx, kf_output_write(ctx, output, "f", 1));
  assert_ok(ctx, kf_output_commit(ctx, output));
  size_t n;
  AUTOFREE char *bytes = test_read(at("x"), &n);
  assert_int_equal(n, 6);
  assert_memory_equal(bytes, "a\0\0\0ef", 6);

  assert_ok(ctx, kf_output_open(ctx, at("x"), &output));
  assert_error(ctx, KF_ERR_ARG, "long", kf_output_write_at(ctx, output, INT64_MAX, "e", 1));
  assert_error(ctx, KF_ERR_IO, at("x"), kf_output_write_at(ctx, output, INT64_MAX - 1, "e", 1));
  assert_error(ctx, KF_ERR_IO, at("x"), kf_output_write(ctx, output, "e", 1));
  assert_error(ctx, KF_ERR_IO, at("x"), kf_output_commit(ctx, output));
  assert_error(ctx, KF_ERR_IO, "absent", kf_output_open(ctx, at("absent/x"), &output));
  assert_error(ctx, KF_ERR_IO, "regular", kf_output_open(ctx, folder, &output));
  kf_output_free(NULL);
}

/* --- several files ---------------------------------------------------------------------------- */

static kf_status save_three(void) {
  static const char *const names[] = {"a", "b", "c"};
  KF_TRY(kf_outputs_begin(ctx));
  for (int i = 0; i < 3; i++) {
    kf_status status = save(at(names[i]), "new");
    if (status != KF_OK) {
      kf_outputs_abort(ctx);
      return status;
    }
  }
  return kf_outputs_commit(ctx);
}

/* Two old files and a new one: all are replaced, or none is. */
TEST(all_or_none) {
  static const int codes[] = {EIO, ENOSPC, EINTR, EACCES};
  int failed = 0;
  for (int call = 0; call <= LINKAT; call++)
    for (int from = 0; from < 7; from++)
      for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        all_well();
        write_text(at("a"), "old");
        write_text(at("c"), "old");
        unlink(at("b"));
        let_fail(call, from, codes[c], 1);
        kf_status status = save_three();
        all_well();
        failed += status != KF_OK;
        assert_text(at("a"), status == KF_OK ? "new" : "old");
        assert_text(at("c"), status == KF_OK ? "new" : "old");
        assert_int_equal(access(at("b"), F_OK) == 0, status == KF_OK);
        assert_int_equal(test_entries(folder), status == KF_OK ? 3 : 2);
      }
  assert_true(failed > 20);
}

TEST(nothing_before_the_end) {
  write_text(at("a"), "old");
  assert_ok(ctx, kf_outputs_begin(ctx));
  assert_error(ctx, KF_ERR_ARG, "called twice", kf_outputs_begin(ctx));
  assert_ok(ctx, save(at("a"), "new"));
  assert_error(ctx, KF_ERR_ARG, "written twice", save(at("a"), "newer"));
  assert_text(at("a"), "old");
  assert_int_equal(test_entries(folder), 1);
  kf_outputs_abort(ctx);
  kf_outputs_abort(ctx);
  assert_text(at("a"), "old");
  assert_error(ctx, KF_ERR_ARG, "kf_outputs_begin was not called", kf_outputs_commit(ctx));

  AUTO(kf_data) *data = NULL; /* files that the library writes also wait */
  assert_ok(ctx, kf_synth_open(ctx, &(kf_synth_options){.classes = 3, .dim = 8}, &data));
  assert_ok(ctx, kf_outputs_begin(ctx));
  assert_ok(ctx, kf_data_save(ctx, data, KF_F32, at("x.safetensors")));
  assert_ok(ctx, save(at("a"), "new"));
  assert_int_equal(access(at("x.safetensors"), F_OK), -1);
  assert_ok(ctx, kf_outputs_commit(ctx));
  assert_int_equal(access(at("x.safetensors"), F_OK), 0);
  assert_text(at("a"), "new");
  assert_ok(ctx, kf_outputs_begin(ctx)); /* freed with the context */
  assert_ok(ctx, save(at("a"), "never"));
}

/* --- locks ------------------------------------------------------------------------------------ */

static kf_status replace(const char *path, const char *text, kf_guard *guard) {
  kf_err err;
  kf_out out;
  kf_status status = kf_out_open(&out, ctx, path, &err);
  if (status == KF_OK) status = kf_out_write(&out, text, strlen(text), &err);
  if (status == KF_OK) kf_out_replaces(&out, guard);
  if (status == KF_OK) status = kf_out_commit(&out, &err);
  kf_out_abort(&out);
  snprintf(logged, sizeof logged, "%s", status == KF_OK ? "" : err.message);
  return status;
}

/* A file replaced or changed without the lock is noticed. */
TEST(replaced_meanwhile) {
  kf_guard guard;
  write_text(at("x"), "old");
  assert_ok(ctx, kf_guard_take(&guard, ctx, at("x")));
  assert_ok(ctx, replace(at("x"), "new", &guard));
  assert_int_equal(guard.fd, -1);
  assert_ok(ctx, kf_guard_take(&guard, ctx, at("x")));
  assert_ok(ctx, save(at("x"), "other"));
  assert_int_equal(replace(at("x"), "lost", &guard), KF_ERR_IO);
  assert_non_null(strstr(logged, "another process"));
  assert_text(at("x"), "other");
  assert_ok(ctx, kf_guard_take(&guard, ctx, at("x")));
  write_text(at("x"), "another");
  assert_int_equal(replace(at("x"), "lost", &guard), KF_ERR_IO);
  assert_text(at("x"), "another");
  assert_int_equal(test_entries(folder), 1);
}

TEST(no_locks_here) {
  kf_guard guard;
  write_text(at("x"), "old");
  let_fail(FLOCK, 0, ENOLCK, 100);
  assert_error(ctx, KF_ERR_IO, "cannot be locked", kf_guard_take(&guard, ctx, at("x")));
  assert_int_equal(kf_errhint(ctx), KF_HINT_OTHER_NAME);
  assert_int_equal(guard.fd, -1);
  let_fail(FLOCK, 0, EBADF, 1); /* like NFS, where the file must be open for writing */
  assert_ok(ctx, kf_guard_take(&guard, ctx, at("x")));
  kf_guard_release(&guard);
}

static int stop_waiting(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)done;
  (void)total;
  assert_string_equal(what, "wait");
  return ++*(int *)user == 5;
}

/* Waits for a lock held by another process; waiting can be cancelled. */
TEST(waiting) {
  write_text(at("x"), "old");
  int rounds = 0;
  AUTO(kf_ctx) *other = NULL;
  assert_int_equal(
      kf_ctx_new(&(kf_ctx_options){.threads = 1, .progress = stop_waiting, .user = &rounds},
                 &other),
      KF_OK);
  kf_guard guard, second;
  assert_ok(ctx, kf_guard_take(&guard, ctx, at("x")));
  assert_int_equal(kf_guard_take(&second, other, at("x")), KF_ERR_CANCELLED);
  assert_int_equal(rounds, 5);
  kf_guard_release(&guard);
  assert_int_equal(kf_guard_take(&second, other, at("x")), KF_OK);
  kf_guard_release(&second);
}

/* --- rows that are added ---------------------------------------------------------------------- */

static kf_status add_row(kf_ctx *own, const char *gallery, float number,
                         const kf_gallery_options *more) {
  const float row[] = {number, 1};
  AUTO(kf_data) *data = NULL;
  KF_TRY(kf_data_open_memory(own, row, 1, 2, NULL, NULL, 0, &data));
  kf_gallery_options options = more != NULL ? *more : (kf_gallery_options){0};
  options.metric = KF_METRIC_EUCLIDEAN;
  options.append_to = number > 0 ? gallery : NULL;
  kf_status status = kf_gallery_save(own, data, NULL, &options, gallery);
  return status;
}

static uint64_t rows_of(const char *path) {
  AUTO(kf_gallery) *g = NULL;
  assert_ok(ctx, kf_gallery_load(ctx, path, NULL, &g));
  uint64_t n = kf_gallery_rows(g);
  return n;
}

/* After an unclear failure, repeating the call adds nothing; other rows, and repeated rows on
 * request, are added. */
TEST(the_same_batch) {
  const char *path = at("g.safetensors");
  int repeated = -1;
  kf_gallery_options options = {.repeated = &repeated}, again = {.again = 1, .repeated = &repeated};
  assert_ok(ctx, add_row(ctx, path, 0, &options));
  assert_int_equal(repeated, 0);
  for (int i = 1; i <= 70; i++) { /* more than the file remembers */
    assert_ok(ctx, add_row(ctx, path, (float)i, &options));
    assert_int_equal(repeated, 0);
  }
  assert_int_equal(rows_of(path), 71);
  size_t before, after;
  AUTOFREE char *old = test_read(path, &before);
  for (int i = 70; i > 70 - KF_MAX_BATCHES; i--) {
    logged[0] = '\0';
    assert_ok(ctx, add_row(ctx, path, (float)i, &options));
    assert_int_equal(repeated, 1);
    assert_non_null(strstr(logged, "already"));
  }
  AUTOFREE char *same = test_read(path, &after);
  assert_int_equal(before, after);
  assert_memory_equal(old, same, before);
  assert_ok(ctx, add_row(ctx, path, 70, &again));
  assert_int_equal(repeated, 0);
  assert_int_equal(rows_of(path), 72);
  assert_int_equal(test_entries(folder), 2); /* with the folder of changes */

  /* A failed folder sync does not call for a retry, and a retry changes nothing. */
  let_fail(FSYNC, 1, EIO, 1);
  assert_ok(ctx, add_row(ctx, path, 99, NULL));
  assert_ok(ctx, add_row(ctx, path, 99, NULL));
  assert_int_equal(rows_of(path), 73);
}

/* Processes add rows at the same time: none is lost or added twice. */
TEST(many_at_once) {
  enum { PROCESSES = 6, ROWS = 8 };
  const char *path = at("g.safetensors");
  assert_ok(ctx, add_row(ctx, path, 0, NULL));
  pid_t children[PROCESSES];
  int failed = 0;
  for (int p = 0; p < PROCESSES; p++) {
    children[p] = fork();
    assert_true(children[p] >= 0);
    if (children[p] > 0) continue;
    kf_ctx *own;
    int bad = kf_ctx_new(&(kf_ctx_options){.threads = 1}, &own) != KF_OK;
    for (int i = 0; !bad && i < ROWS; i++)
      bad = add_row(own, path, (float)(1 + p * ROWS + i), NULL) != KF_OK;
    if (bad) fprintf(stderr, "%s\n", kf_errmsg(own));
    _exit(bad);
  }
  for (int p = 0; p < PROCESSES; p++) {
    int code;
    assert_int_equal(waitpid(children[p], &code, 0), children[p]);
    failed += code != 0;
  }
  assert_int_equal(failed, 0);
  AUTO(kf_gallery) *g = NULL;
  assert_ok(ctx, kf_gallery_load(ctx, path, NULL, &g));
  assert_int_equal(kf_gallery_rows(g), 1 + PROCESSES * ROWS);
  for (int i = 0; i <= PROCESSES * ROWS; i++) {
    const float row[] = {(float)i, 1};
    int64_t found[2];
    double distance[2];
    assert_ok(ctx, kf_gallery_search(ctx, g, row, 1, 2, NULL, found, distance, NULL));
    assert_true(distance[0] == 0 && distance[1] == 1);
  }
  assert_int_equal(test_entries(folder), 2);
}

/* --- links and modes -------------------------------------------------------------------------- */

TEST(dangling_links) {
  struct stat info;
  assert_int_equal(mkdir(at("sub"), 0777), 0);
  assert_int_equal(symlink("sub/second", at("first")), 0);
  assert_int_equal(symlink("target", at("sub/second")), 0);
  assert_ok(ctx, save(at("first"), "new")); /* as open(2) would */
  assert_text(at("sub/target"), "new");
  assert_int_equal(lstat(at("first"), &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_int_equal(symlink("nowhere/x", at("lost")), 0);
  assert_error(ctx, KF_ERR_IO, "No such file", save(at("lost"), "new"));
  assert_int_equal(symlink("loop", at("loop")), 0);
  assert_error(ctx, KF_ERR_IO, "symbolic links", save(at("loop"), "new"));
}

static mode_t mode_after(mode_t before, uid_t owner) {
  struct stat info;
  unlink(at("x"));
  write_text(at("x"), "old");
  assert_int_equal(chown(at("x"), owner, (gid_t)-1), 0);
  assert_int_equal(chmod(at("x"), before), 0);
  assert_ok(ctx, save(at("x"), "new"));
  assert_int_equal(stat(at("x"), &info), 0);
  assert_int_equal(info.st_uid, geteuid());
  return info.st_mode & 07777;
}

TEST(modes) {
  mode_t mask = umask(022);
  assert_int_equal(mode_after(0640, geteuid()), 0640);
  assert_int_equal(mode_after(0600, geteuid()), 0600);
  assert_int_equal(mode_after(07755, geteuid()), 0755);
  assert_int_equal(mode_after(04700, geteuid()), 0700);
  if (geteuid() == 0) { /* owned by another user: restricts, but grants nothing */
    assert_int_equal(mode_after(0666, 12345), 0644);
    assert_int_equal(mode_after(06777, 12345), 0644);
    assert_int_equal(mode_after(0600, 12345), 0600);
    assert_int_equal(mode_after(0000, 12345), 0600);
  }
  umask(mask);
}

FIXTURES(.before_each = start, .after_each = end);
