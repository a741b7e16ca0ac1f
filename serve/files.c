/* files.c - the files of the page, which embed.cmake builds into the program. */
#include "files.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

static const char page_policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
                                  "img-src 'self' blob: data:; connect-src 'self'; "
                                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const sv_file *find(const char *path) {
  const char *name = strcmp(path, "/") == 0      ? "index.html"
                     : strcmp(path, "/api") == 0 ? "api.html"
                                                 : path + 1;
  for (size_t i = 0; i < sv_n_files; i++)
    if (strcmp(sv_files[i].name, name) == 0) return &sv_files[i];
  return NULL;
}

bool sv_is_file(const char *path) { return path[0] == '/' && find(path) != NULL; }

static const char *type_of(const char *name) {
  static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                         {".css", "text/css; charset=utf-8"},
                                         {".js", "text/javascript; charset=utf-8"},
                                         {".json", "application/json"},
                                         {".svg", "image/svg+xml"},
                                         {".png", "image/png"}};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < SV_COUNT_OF(types); i++)
    if (strcmp(dot, types[i][0]) == 0) return types[i][1];
  return "application/octet-stream";
}

/* Whether the client has this version: If-None-Match is a list of tags, or a star. */
static bool has_it(sv_request *r, const char *tag) {
  const char *known = sv_header(r, "If-None-Match");
  return known && (strstr(known, tag) || strcmp(known, "*") == 0);
}

void sv_work_file(sv_request *r, kf_ctx *ctx) {
  const sv_file *file = find(r->path);
  (void)ctx;
  r->policy = page_policy;
  r->cache = "no-cache";
  r->etag = file->tag;
  r->constant = file->bytes;
  r->n_constant = file->n;
  sv_answer(r, has_it(r, file->tag) ? 304 : 200, type_of(file->name));
}
