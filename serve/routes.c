/* routes.c - the addresses, and the steps of a request: parse the body, fetch rows of the gallery,
 * encode pictures and words, then do the work and answer. */
#include "server.h"

#include <stdio.h>
#include <string.h>

/* Up to this size, the thread that receives a body parses it and classifies its rows. */
enum { QUICK_BODY = 64 << 10, QUICK_ROWS = 16 };

const sv_route sv_routes[] = {
    {"POST", "/v1/classify", "classify", .lane = SV_ROWS, sv_parse_classify, sv_work_classify,
     "top "},
    {"POST", "/v1/search", "search", .lane = SV_ROWS, sv_parse_search, sv_work_search, "k space "},
    {"POST", "/v1/embeddings", "embeddings", .lane = SV_HERE, sv_parse_embeddings,
     sv_work_embeddings, ""},
    {"GET", "/v1/info", "info", .lane = SV_HERE, NULL, sv_work_info, ""},
    {"GET", "/v1/models", "models", .lane = SV_HERE, NULL, sv_work_models, ""},
    {"GET", "/v1/classes", "classes", .lane = SV_HERE, NULL, sv_work_classes, ""},
    {"POST", "/v1/classes", "add_class", .lane = SV_CHANGES, sv_parse_class, sv_work_add_class, ""},
    {"DELETE", "/v1/classes/*", "remove_class", .lane = SV_CHANGES, NULL, sv_work_remove_class, ""},
    {"GET", "/v1/images/*", "images", .lane = SV_FILES, NULL, sv_work_image, "size "},
    {"GET", "/v1/map", "map", .lane = SV_ROWS, NULL, sv_work_map, "space max "},
    {"GET", "/v2", "v2", .lane = SV_HERE, NULL, sv_work_v2},
    {"GET", "/v2/health/live", "v2_live", .open = true, .lane = SV_HERE, NULL, sv_work_v2},
    {"GET", "/v2/health/ready", "v2_ready", .open = true, .lane = SV_HERE, NULL, sv_work_v2},
    {"GET", "/v2/models/*", "v2_model", .lane = SV_HERE, NULL, sv_work_v2},
    {"POST", "/v2/models/*", "v2_infer", .lane = SV_ROWS, sv_parse_infer, sv_work_infer},
    {"GET", "/metrics", "metrics", .lane = SV_HERE, NULL, sv_work_metrics},
    {"GET", "/healthz", "healthz", .open = true, .lane = SV_HERE, NULL, sv_work_health},
    {"GET", "/*", "page", .open = true, .lane = SV_HERE, NULL, sv_work_file},
};
const size_t sv_n_routes = SV_COUNT_OF(sv_routes);
_Static_assert(SV_COUNT_OF(sv_routes) <= SV_ROUTES, "metrics have room for every route");

static bool matches(const sv_route *route, const char *path) {
  size_t n = strlen(route->path);
  if (route->path[n - 1] != '*') return strcmp(route->path, path) == 0;
  if (n == 2) return sv_is_file(path); /* "/" and a star: files of the page */
  return strncmp(route->path, path, n - 1) == 0 && path[n - 1] != '\0';
}

const sv_route *sv_route_of(const char *method, const char *path, char *allowed, size_t size) {
  *allowed = '\0';
  for (size_t i = 0; i < sv_n_routes; i++) {
    const sv_route *route = &sv_routes[i];
    if (!matches(route, path)) continue;
    if (strcmp(route->method, method) == 0) return route;
    size_t n = strlen(allowed);
    snprintf(allowed + n, size - n, "%s%s", n ? ", " : "", route->method);
  }
  return NULL;
}

static bool is_quick(const sv_request *r) {
  bool classifies = r->route->work == sv_work_classify || r->route->work == sv_work_infer;
  return classifies && r->in.n <= QUICK_ROWS;
}

sv_lane sv_lane_of(const sv_request *r) {
  switch (r->stage) {
  case SV_PARSE: return r->n_body > QUICK_BODY ? SV_ROWS : SV_HERE;
  case SV_FETCH: return SV_FILES;
  case SV_EMBED: return SV_ENCODER;
  case SV_WORK: return is_quick(r) ? SV_HERE : r->route->lane;
  default: return SV_HERE;
  }
}

/* The step after parsing. A search takes row numbers as they are. */
static sv_stage after_parsing(const sv_request *r) {
  const sv_input *in = &r->in;
  if (in->kind == SV_PICTURES || in->kind == SV_TEXTS) return SV_EMBED;
  if (in->kind == SV_ROW_NUMBERS && r->route->work != sv_work_search) return SV_FETCH;
  return SV_WORK;
}

void sv_advance(sv_request *r, kf_ctx *ctx, sv_lane lane) {
  while (r->stage != SV_DONE) {
    sv_lane wanted = sv_lane_of(r);
    if (wanted != SV_HERE && wanted != lane) return;
    if (r->stage == SV_PARSE) {
      if (!r->route->parse || r->route->parse(r, ctx)) r->stage = after_parsing(r);
    } else if (r->stage == SV_FETCH) {
      if (sv_fetch_rows(r, ctx)) r->stage = SV_WORK;
    } else if (r->stage == SV_EMBED) {
      sv_encode(r, ctx); /* on its own: the lane found no others to batch it with */
    } else {
      r->route->work(r, ctx);
    }
  }
}
