/* out_shared.c - one file that all ranks write, each its own parts.
 *
 * Rank 0 has opened the file, which usually has no name yet. Ranks on the same machine reach it
 * through rank 0's descriptor (/proc/PID/fd/N), so it needs no name, and a killed run leaves
 * nothing behind. For ranks on other machines it gets its temporary name early. If a rank cannot
 * open that either, because only rank 0 sees the folder, the file is not shared and rank 0 writes
 * all of it.
 *
 * A process number may mean another process elsewhere, in a container for example. The file is the
 * right one if it has the same device and inode number on the same running system; the temporary
 * name is random. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where rank 0's file is. */
typedef struct place {
  char kernel[40]; /* boot id of the running system; empty: unknown */
  kf_file_state state;
  int64_t process, descriptor;
  char temporary[PATH_MAX];
} place;

static void find_kernel(char text[40]) {
  memset(text, 0, 40);
  int fd = kf_open("/proc/sys/kernel/random/boot_id", O_RDONLY);
  if (fd < 0) return;
  if (read(fd, text, 36) != 36) text[0] = '\0';
  close(fd);
}

static kf_status find_place(const kf_out *out, place *at, kf_err *err) {
  struct stat info;
  if (fstat(out->fd, &info) != 0) return kf_fail_errno(err, out->path, "cannot be examined", errno);
  find_kernel(at->kernel);
  at->state = kf_file_state_of(&info);
  at->process = getpid();
  at->descriptor = out->fd;
  if (snprintf(at->temporary, sizeof at->temporary, "%s", out->temporary) >= PATH_MAX)
    return kf_fail_errno(err, out->path, "cannot be created", ENAMETOOLONG);
  return KF_OK;
}

static bool is_at(const struct stat *info, const place *at) {
  kf_file_state there = kf_file_state_of(info);
  return S_ISREG(info->st_mode) && kf_same_file(&there, &at->state);
}

/* Returns -1 if this rank is on another machine. */
static int open_by_process(const place *at) {
  char kernel[40], path[80];
  find_kernel(kernel);
  if (kernel[0] == '\0' || memcmp(kernel, at->kernel, sizeof kernel) != 0) return -1;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)at->process,
           (long long)at->descriptor);
  struct stat info; /* opening anything else might block or do harm */
  if (stat(path, &info) != 0 || !is_at(&info, at)) return -1;
  int fd = kf_open(path, O_WRONLY);
  if (fd >= 0 && (fstat(fd, &info) != 0 || !is_at(&info, at))) {
    close(fd);
    fd = -1;
  }
  return fd;
}

static void leave(kf_out *out) {
  if (out->nowhere && out->fd >= 0) close(out->fd);
  if (out->nowhere) out->fd = -1;
}

/* Counts the ranks that cannot write yet. */
static kf_status count_lacking(const kf_out *out, uint64_t *n) {
  *n = out->fd < 0;
  return kf_sum_u64(out->ctx, KF_OK, n, 1);
}

kf_status kf_out_share(kf_out *out, bool *shared) {
  kf_ctx *ctx = out->ctx;
  bool first = !out->nowhere;
  place at = {0};
  uint64_t lacking;
  *shared = false;
  KF_TRY(kf_take_from_first(ctx, first ? find_place(out, &at, &ctx->err) : KF_OK, &at, sizeof at));
  at.temporary[PATH_MAX - 1] = '\0';
  if (!first) out->fd = open_by_process(&at);
  KF_TRY(count_lacking(out, &lacking));
  if (lacking > 0) {
    KF_TRY(kf_agree_on(ctx, first ? kf_out_name(out, &ctx->err) : KF_OK));
    if (out->fd < 0) out->fd = kf_open(at.temporary, O_WRONLY | O_NOFOLLOW);
    KF_TRY(count_lacking(out, &lacking));
  }
  *shared = lacking == 0;
  if (!*shared) leave(out);
  return KF_OK;
}
