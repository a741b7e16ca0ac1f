/* map.c - the gallery as points in a plane, in both spaces.
 *
 * A model orders directions by how well they separate classes, so in its space the plane is that of
 * the first two coordinates. In the raw space it is that of the two largest principal components,
 * found by orthogonal iteration: with X centred, V [D][2] becomes X^T (X V), made orthonormal,
 * ITERATIONS times. Both show the same rows, so a point can be followed from one to the other. */
#include "server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_POINTS = 5000, ITERATIONS = 60, MAX_KEPT = 4, BLOCK = 256 };

typedef struct sv_map_text {
  struct sv_map_text *next;
  bool raw;
  uint64_t max;
  size_t n;
  char text[];
} sv_map_text;

void sv_maps_free(sv_map_text *maps) {
  while (maps) {
    sv_map_text *next = maps->next;
    free(maps);
    maps = next;
  }
}

typedef struct points {
  uint64_t n;
  uint64_t *rows; /* [n] row numbers of the gallery, rising */
  double (*at)[2];
} points;

/* --- the raw space ---------------------------------------------------------------------------- */

static void centre(float *x, uint64_t n, uint32_t dim, double *mean, bool unit) {
  memset(mean, 0, dim * sizeof *mean);
  for (uint64_t i = 0; i < n; i++) {
    float *row = x + i * dim;
    double length = 0;
    for (uint32_t d = 0; d < dim; d++) length += (double)row[d] * row[d];
    length = unit && length > 0 ? sqrt(length) : 1;
    for (uint32_t d = 0; d < dim; d++) {
      row[d] = (float)(row[d] / length);
      mean[d] += row[d];
    }
  }
  for (uint32_t d = 0; d < dim; d++) mean[d] /= (double)n;
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t d = 0; d < dim; d++) x[i * dim + d] = (float)(x[i * dim + d] - mean[d]);
}

static void orthonormalise(double *v, uint32_t dim) {
  for (int c = 0; c < 2; c++) {
    double *own = v + (size_t)c * dim, dot = 0, length = 0;
    for (uint32_t d = 0; c > 0 && d < dim; d++) dot += own[d] * v[d];
    for (uint32_t d = 0; d < dim; d++) {
      if (c > 0) own[d] -= dot * v[d];
      length += own[d] * own[d];
    }
    length = length > 0 ? sqrt(length) : 1;
    for (uint32_t d = 0; d < dim; d++) own[d] /= length;
  }
}

static void project(const float *row, const double *v, uint32_t dim, double at[2]) {
  at[0] = at[1] = 0;
  for (uint32_t d = 0; d < dim; d++) {
    at[0] += row[d] * v[d];
    at[1] += row[d] * v[dim + d];
  }
}

static void find_components(const float *x, uint64_t n, uint32_t dim, double *v, double *next) {
  for (uint32_t d = 0; d < 2 * dim; d++)
    v[d] = 1 + (double)(d * 2654435761u % 1000) / 1000; /* any two different vectors */
  orthonormalise(v, dim);
  for (int step = 0; step < ITERATIONS; step++) {
    memset(next, 0, 2 * (size_t)dim * sizeof *next);
    for (uint64_t i = 0; i < n; i++) {
      double at[2];
      project(x + i * dim, v, dim, at);
      for (uint32_t d = 0; d < dim; d++) {
        next[d] += at[0] * x[i * dim + d];
        next[dim + d] += at[1] * x[i * dim + d];
      }
    }
    memcpy(v, next, 2 * (size_t)dim * sizeof *v);
    orthonormalise(v, dim);
  }
}

static kf_status map_raw(sv_request *r, kf_ctx *ctx, points *p) {
  const kf_data *data = r->world->shelf->rows;
  uint32_t dim = kf_data_dim(data);
  float *x = sv_take(&r->arena, p->n * dim, sizeof *x);
  double *v = sv_take(&r->arena, 5 * (size_t)dim, sizeof *v);
  if (!x || !v) return KF_ERR_MEM;
  for (uint64_t i = 0; i < p->n; i++) {
    kf_status status = kf_data_get(ctx, data, p->rows[i], 1, x + i * dim, NULL);
    if (status != KF_OK) return status;
  }
  centre(x, p->n, dim, v + 4 * (size_t)dim, kf_model_normalized(r->world->model));
  find_components(x, p->n, dim, v, v + 2 * (size_t)dim);
  for (uint64_t i = 0; i < p->n; i++) project(x + i * dim, v, dim, p->at[i]);
  return KF_OK;
}

/* --- the space of the model ------------------------------------------------------------------- */

/* Rows as they are in the gallery's file, or mapped now, which is the same. */
static kf_status map_koofu(sv_request *r, kf_ctx *ctx, points *p) {
  const sv_shelf *shelf = r->world->shelf;
  const kf_data *data = shelf->mapped ? shelf->mapped : shelf->rows;
  uint32_t dim = kf_data_dim(data), out = shelf->mapped ? dim : kf_model_dim_out(r->world->model);
  float *x = sv_take(&r->arena, (size_t)BLOCK * dim, sizeof *x);
  float *mapped = shelf->mapped ? x : sv_take(&r->arena, (size_t)BLOCK * out, sizeof *mapped);
  if (!x || !mapped) return KF_ERR_MEM;
  for (uint64_t first = 0; first < p->n; first += BLOCK) {
    uint64_t n = p->n - first < BLOCK ? p->n - first : BLOCK;
    kf_status status = KF_OK;
    for (uint64_t i = 0; status == KF_OK && i < n; i++)
      status = kf_data_get(ctx, data, p->rows[first + i], 1, x + i * dim, NULL);
    if (status == KF_OK && !shelf->mapped)
      status = kf_transform(ctx, r->world->model, x, n, NULL, mapped);
    if (status != KF_OK) return status;
    for (uint64_t i = 0; i < n; i++) {
      p->at[first + i][0] = mapped[i * out];
      p->at[first + i][1] = out > 1 ? mapped[i * out + 1] : 0;
    }
  }
  return KF_OK;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void put_points(sv_request *r, const points *p) {
  const kf_gallery *g = r->world->shelf->any;
  sv_text *t = &r->out;
  sv_json_open(t, "points", '[');
  for (uint64_t i = 0; i < p->n; i++) {
    sv_json_open(t, NULL, '[');
    sv_json_count(t, NULL, p->rows[i]);
    sv_json_float(t, (float)p->at[i][0]);
    sv_json_float(t, (float)p->at[i][1]);
    int32_t label = kf_gallery_label(g, p->rows[i]);
    sv_json_int(t, NULL, label >= 0 ? label : -1);
    sv_json_close(t, ']');
  }
  sv_json_close(t, ']');
}

static void put_names(sv_request *r, const points *p) {
  const sv_shelf *shelf = r->world->shelf;
  sv_text *t = &r->out;
  if (sv_shelf_id(shelf, 0)) {
    sv_json_open(t, "ids", '[');
    for (uint64_t i = 0; i < p->n; i++) sv_json_string(t, NULL, sv_shelf_id(shelf, p->rows[i]));
    sv_json_close(t, ']');
  } else {
    sv_json_null(t, "ids");
  }
  sv_json_open(t, "classes", '[');
  for (uint32_t k = 0; k < kf_gallery_classes(shelf->any); k++) {
    sv_json_class(t, NULL, kf_gallery_class_name(shelf->any, k), k);
  }
  sv_json_close(t, ']');
}

static void print_map(sv_request *r, const points *p) {
  sv_text *t = &r->out;
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "space", r->in.raw ? "raw" : "koofu");
  sv_json_string(t, "axes",
                 r->in.raw ? "two largest principal components"
                           : "two most discriminative directions");
  sv_json_string(t, "coloured_by", "label");
  sv_json_count(t, "rows_total", r->world->shelf->n);
  put_points(r, p);
  put_names(r, p);
  sv_put_command(r, sv_map_command);
  sv_answer_json(r, 200);
}

/* At most `max` rows, evenly spaced. */
static bool choose_points(sv_request *r, uint64_t max, points *p) {
  uint64_t all = r->world->shelf->n;
  p->n = all < max ? all : max;
  p->rows = sv_take(&r->arena, p->n, sizeof *p->rows);
  p->at = sv_take(&r->arena, p->n, sizeof *p->at);
  if (!p->rows || !p->at) return false;
  for (uint64_t i = 0; i < p->n; i++)
    p->rows[i] = (uint64_t)((double)i * (double)all / (double)p->n);
  return true;
}

static bool answer_kept(sv_request *r, uint64_t max) {
  for (const sv_map_text *m = r->world->maps; m; m = m->next) {
    if (m->raw != r->in.raw || m->max != max) continue;
    r->constant = m->text;
    r->n_constant = m->n;
    sv_answer(r, 200, "application/json");
    return true;
  }
  return false;
}

/* For later requests. Only one lane does this work, so the list needs no lock. */
static void keep(sv_request *r, uint64_t max) {
  sv_world *w = r->world;
  int n = 0;
  for (const sv_map_text *m = w->maps; m; m = m->next) n++;
  sv_map_text *m = n < MAX_KEPT && !r->out.failed ? malloc(sizeof *m + r->out.n) : NULL;
  if (!m) return;
  *m = (sv_map_text){.next = w->maps, .raw = r->in.raw, .max = max, .n = r->out.n};
  memcpy(m->text, r->out.data, r->out.n);
  w->maps = m;
}

static bool check(sv_request *r) {
  const sv_shelf *shelf = r->world->shelf;
  if (!sv_parse_space(r)) return false;
  if (!shelf)
    return sv_fail(
        r, 422, "there is no gallery to draw: start the server with --gallery FILE or --rows DATA");
  if (!r->in.space_given) r->in.raw = !shelf->koofu;
  if (r->in.raw ? shelf->rows != NULL : shelf->mapped || shelf->rows) return true;
  return sv_fail(r, 422,
                 "the rows of this space are not available: start the server with --rows DATA");
}

void sv_work_map(sv_request *r, kf_ctx *ctx) {
  uint64_t max = DEFAULT_POINTS;
  points p;
  if (!check(r) || !sv_arg_number(r, "max", 1, SV_MAP_POINTS, &max) || answer_kept(r, max)) return;
  kf_status status = choose_points(r, max, &p) ? KF_OK : KF_ERR_MEM;
  if (status == KF_OK) status = r->in.raw ? map_raw(r, ctx, &p) : map_koofu(r, ctx, &p);
  if (status != KF_OK) {
    status == KF_ERR_MEM ? sv_fail_memory(r) : sv_fail_status(r, ctx, status);
    return;
  }
  print_map(r, &p);
  keep(r, max);
}
