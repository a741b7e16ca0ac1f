/* images.c - pictures of the gallery's rows, by row number.
 *
 * Clients never send a path. Ids of the gallery are looked up in the folder given at the start and
 * must stay beneath it, even through links; files without the magic bytes of a picture are not
 * sent. */
#include "demo_picture.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_FILE = 64 << 20, MAX_SIDE = 1024 };

bool sv_has_images(const sv_server *s) { return s->demo || s->images >= 0; }

/* Where openat2 is not available: component by component, without following links. */
static int open_components(int folder, const char *path) {
  char name[256];
  int at = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (at >= 0) {
    size_t n = strcspn(path, "/");
    bool last = path[n] == '\0';
    if (n == 0 || n >= sizeof name) break;
    memcpy(name, path, n);
    name[n] = '\0';
    if (strcmp(name, "..") == 0) break;
    int next =
        openat(at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    close(at);
    if (last) return next;
    at = next;
    path += n + 1;
  }
  if (at >= 0) close(at);
  return -1;
}

static int open_beneath(int folder, const char *path) {
  struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  long fd = syscall(SYS_openat2, folder, path, &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return open_components(folder, path);
  return (int)fd;
}

/* The rest of a path below a folder; NULL: it is not below it. */
static const char *below(const char *path, const char *folder) {
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  if (n == 0 || strncmp(path, folder, n) != 0 || path[n] != '/') return NULL;
  return path + n + strspn(path + n, "/");
}

/* Ids are paths as they were given to koofu embed: relative to the folder, or beginning with the
 * folder (as given, with its real path, or with its last name). */
static int open_id(const sv_server *s, const char *id) {
  char full[4096];
  const char *rest = below(id, s->options.images);
  int fd = id[0] != '/' ? open_beneath(s->images, id) : -1;
  if (fd < 0 && rest) fd = open_beneath(s->images, rest);
  rest = realpath(s->options.images, full) ? below(id, full) : NULL;
  if (fd < 0 && rest) fd = open_beneath(s->images, rest);
  rest = below(id, sv_base_name(s->options.images));
  if (fd < 0 && rest) fd = open_beneath(s->images, rest);
  return fd;
}

static const char *type_of(const unsigned char *b, size_t n) {
  if (n >= 3 && memcmp(b, "\xff\xd8\xff", 3) == 0) return "image/jpeg";
  if (n >= 8 && memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0) return "image/png";
  if (n >= 12 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0) return "image/webp";
  return NULL;
}

static void release_bytes(void *bytes) { kf_bytes_free(bytes); }

/* Sends a thumbnail instead of the file. */
static void shrink(sv_request *r, kf_ctx *ctx, uint32_t side) {
  kf_image_bytes picture = {.bytes = r->out.data, .n = r->out.n};
  kf_bytes *small = NULL;
  if (kf_thumbnail_new(ctx, &picture, side, r->server->options.max_pixels, &small) != KF_OK) {
    sv_fail(r, 404, "the picture of this row cannot be read");
    return;
  }
  r->owned = small;
  r->release = release_bytes;
  r->constant = kf_bytes_data(small);
  r->n_constant = kf_bytes_size(small);
  r->type = type_of(r->constant, r->n_constant);
}

static void send_file(sv_request *r, kf_ctx *ctx, int fd, uint32_t side) {
  struct stat info;
  sv_text *t = &r->out;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0 ||
      info.st_size > MAX_FILE) {
    sv_fail(r, 404, "the picture of this row is not a regular file, is empty or is too large");
    return;
  }
  size_t n = (size_t)info.st_size;
  t->data = sv_take(&r->arena, n, 1);
  if (!t->data) {
    sv_fail_memory(r);
    return;
  }
  t->room = n;
  size_t got;
  if (!sv_read_all(fd, t->data, n, &got) || got < n || !type_of((unsigned char *)t->data, n)) {
    sv_fail(r, 404, "the file of this row is not a picture");
    return;
  }
  t->n = n;
  sv_answer(r, 200, type_of((unsigned char *)t->data, n));
  if (side > 0) shrink(r, ctx, side);
}

static void send_demo(sv_request *r, uint64_t row) {
  demo_picture(&r->out, (uint32_t)kf_gallery_label(r->world->shelf->any, row), row);
  sv_answer(r, 200, "image/svg+xml");
}

static bool row_of(const char *text, uint64_t n, uint64_t *row) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 18 || text[digits] != '\0') return false;
  *row = strtoull(text, NULL, 10);
  return *row < n;
}

void sv_work_image(sv_request *r, kf_ctx *ctx) {
  const sv_shelf *shelf = r->world->shelf;
  uint64_t row, side = 0;
  if (!sv_arg_number(r, "size", 16, MAX_SIDE, &side)) return;
  if (!shelf || !sv_has_images(r->server) || !row_of(r->rest, shelf->n, &row)) {
    sv_fail(r, 404, "there is no picture of this row");
    return;
  }
  r->cache = "private, max-age=300";
  if (r->server->demo) {
    send_demo(r, row);
    return;
  }
  const char *id = sv_shelf_id(shelf, row);
  int fd = id ? open_id(r->server, id) : -1;
  if (fd < 0) {
    sv_fail(r, 404, "there is no picture of this row");
    return;
  }
  send_file(r, ctx, fd, (uint32_t)side);
  close(fd);
}
