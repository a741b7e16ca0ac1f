/* kserve.c - the Open Inference Protocol (KServe v2): health, metadata and inference, with the
 * extension for binary tensors. The input is "rows"; the outputs are "scores", of all classes that
 * take part, by number; "class", the best one; and "mapped", the row in the space of the model. */
#include "json.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- health and metadata ---------------------------------------------------------------------- */

static void put_shape(sv_text *t, int64_t second) {
  sv_json_open(t, "shape", '[');
  sv_json_int(t, NULL, -1);
  if (second > 0) sv_json_int(t, NULL, second);
  sv_json_close(t, ']');
}

static void put_tensor(sv_text *t, const char *name, const char *type, int64_t second) {
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "name", name);
  sv_json_string(t, "datatype", type);
  put_shape(t, second);
  sv_json_close(t, '}');
}

static void put_metadata(sv_request *r) {
  const kf_model *m = r->world->model;
  sv_text *t = &r->out;
  char name[256];
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "name", sv_model_name(r->server, name, sizeof name));
  sv_json_open(t, "versions", '[');
  sv_json_close(t, ']');
  sv_json_string(t, "platform", "koofu");
  sv_json_open(t, "inputs", '[');
  put_tensor(t, "rows", "FP32", kf_model_dim_in(m));
  sv_json_close(t, ']');
  sv_json_open(t, "outputs", '[');
  put_tensor(t, "scores", "FP32", r->world->answers);
  put_tensor(t, "class", "BYTES", 0);
  put_tensor(t, "mapped", "FP32", kf_model_dim_out(m));
  sv_json_close(t, ']');
  sv_json_close(t, '}');
}

static void put_server(sv_text *t) {
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "name", "koofu");
  sv_json_string(t, "version", kf_version());
  sv_json_open(t, "extensions", '[');
  sv_json_string(t, NULL, "binary_tensor_data");
  sv_json_close(t, ']');
  sv_json_close(t, '}');
}

/* What follows the name of the model in NAME, NAME/ready or NAME/infer; NULL: another model. */
static const char *after_name(const sv_request *r) {
  char name[256];
  size_t n = strlen(sv_model_name(r->server, name, sizeof name));
  return r->rest && strncmp(r->rest, name, n) == 0 && (r->rest[n] == '\0' || r->rest[n] == '/')
             ? r->rest + n
             : NULL;
}

static void put_flag(sv_text *t, const char *key, bool value) {
  sv_json_open(t, NULL, '{');
  sv_json_bool(t, key, value);
  sv_json_close(t, '}');
}

void sv_work_v2(sv_request *r, kf_ctx *ctx) {
  const char *rest = r->rest ? after_name(r) : NULL;
  (void)ctx;
  if (strcmp(r->path, "/v2") == 0)
    put_server(&r->out);
  else if (strcmp(r->path, "/v2/health/live") == 0)
    put_flag(&r->out, "live", true);
  else if (strcmp(r->path, "/v2/health/ready") == 0 || (rest && strcmp(rest, "/ready") == 0))
    put_flag(&r->out, "ready", true);
  else if (rest && *rest == '\0')
    put_metadata(r);
  else {
    sv_fail(r, 404, "there is no such model");
    return;
  }
  sv_puts(&r->out, "\n");
  sv_answer(r, 200, "application/json");
}

/* --- infer: the request ----------------------------------------------------------------------- */

enum { OUT_SCORES = 1, OUT_CLASS = 2, OUT_MAPPED = 4 };

/* The description of the one input. */
typedef struct tensor {
  uint64_t shape[2];
  unsigned ndim;
  bool wide;       /* FP64 */
  uint64_t binary; /* bytes after the JSON; 0: none */
  bool has_data, named;
} tensor;

typedef struct infer {
  unsigned wanted;  /* OUT_...; 0: scores and class */
  bool all_binary;  /* outputs are binary by default */
  unsigned binary;  /* outputs that ask for binary */
  unsigned literal; /* outputs that ask for JSON */
  char id[128];
  float *rows;
  uint64_t n_values, room;
} infer;

static void parse_shape(sv_json *j, tensor *x) {
  uint64_t value;
  sv_json_array(j);
  while (sv_json_item(j)) {
    if (!sv_json_number(j, 0, UINT32_MAX, &value)) return;
    if (x->ndim == 2)
      sv_json_refuse(j, "rows must have the shape [N, D]");
    else
      x->shape[x->ndim++] = value;
  }
}

static void parse_type(sv_json *j, tensor *x) {
  char *text;
  size_t n;
  if (!sv_json_text(j, &text, &n)) return;
  x->wide = strcmp(text, "FP64") == 0;
  if (!x->wide && strcmp(text, "FP32") != 0)
    sv_json_refuse(j, "the datatype of rows must be FP32 or FP64");
}

/* Numbers, flat or in rows. */
static void parse_data(sv_request *r, sv_json *j, infer *f) {
  float value;
  if (sv_json_next(j) != '[') {
    if (!sv_json_single(j, &value)) return;
    if (f->n_values == f->room) {
      uint64_t room = f->room ? 2 * f->room : 1024;
      float *more = sv_resize(&r->arena, f->rows, room * sizeof *more);
      if (!more) {
        sv_fail_memory(r);
        return;
      }
      f->rows = more;
      f->room = room;
    }
    f->rows[f->n_values++] = value;
    return;
  }
  sv_json_array(j);
  while (r->stage != SV_DONE && sv_json_item(j)) {
    if (j->in.depth > 6) sv_json_refuse(j, "rows must have the shape [N, D]");
    parse_data(r, j, f);
  }
}

static void parse_input_parameters(sv_json *j, tensor *x) {
  char *key;
  sv_json_object(j);
  while (sv_json_key(j, &key)) {
    if (strcmp(key, "binary_data_size") == 0)
      sv_json_number(j, 0, UINT32_MAX, &x->binary);
    else
      sv_json_skip(j);
  }
}

static void parse_tensor(sv_request *r, sv_json *j, infer *f, tensor *x) {
  char *key, *name;
  size_t n;
  sv_json_object(j);
  while (r->stage != SV_DONE && sv_json_key(j, &key)) {
    if (strcmp(key, "name") == 0) {
      if (sv_json_text(j, &name, &n) && strcmp(name, "rows") != 0)
        sv_json_refuse(j, "the input must be named rows");
      x->named = true;
    } else if (strcmp(key, "shape") == 0)
      parse_shape(j, x);
    else if (strcmp(key, "datatype") == 0)
      parse_type(j, x);
    else if (strcmp(key, "parameters") == 0)
      parse_input_parameters(j, x);
    else if (strcmp(key, "data") == 0 && !x->has_data) {
      x->has_data = true;
      parse_data(r, j, f);
    } else
      sv_json_refuse(j, "unknown or repeated field '%.60s' of an input", key);
  }
}

static void parse_inputs(sv_request *r, sv_json *j, infer *f, tensor *x) {
  int n = 0;
  sv_json_array(j);
  while (r->stage != SV_DONE && sv_json_item(j)) {
    if (n++ > 0)
      sv_json_refuse(j, "there must be only one input, rows");
    else
      parse_tensor(r, j, f, x);
  }
}

static unsigned output_of(const char *name) {
  return strcmp(name, "scores") == 0   ? OUT_SCORES
         : strcmp(name, "class") == 0  ? OUT_CLASS
         : strcmp(name, "mapped") == 0 ? OUT_MAPPED
                                       : 0;
}

static void parse_binary_flag(sv_json *j, const char *wanted, bool *found, bool *value) {
  char *key;
  sv_json_object(j);
  while (sv_json_key(j, &key)) {
    if (strcmp(key, wanted) == 0)
      *found = sv_json_truth(j, value);
    else
      sv_json_skip(j);
  }
}

static void parse_output(sv_json *j, infer *f) {
  char *key, *name;
  size_t n;
  unsigned output = 0;
  bool found = false, binary = false;
  sv_json_object(j);
  while (sv_json_key(j, &key)) {
    if (strcmp(key, "name") == 0) {
      if (sv_json_text(j, &name, &n) && !(output = output_of(name)))
        sv_json_refuse(j, "unknown output '%.60s'; there are scores, class and mapped", name);
    } else if (strcmp(key, "parameters") == 0)
      parse_binary_flag(j, "binary_data", &found, &binary);
    else
      sv_json_refuse(j, "unknown field '%.60s' of an output", key);
  }
  if (sv_json_fine(j) && !output) sv_json_refuse(j, "an output must have a name");
  f->wanted |= output;
  if (found) *(binary ? &f->binary : &f->literal) |= output;
}

static void parse_id(sv_json *j, infer *f) {
  char *text;
  size_t n;
  if (!sv_json_text(j, &text, &n)) return;
  if (n >= sizeof f->id)
    sv_json_refuse(j, "the id has more than %zu bytes", sizeof f->id - 1);
  else
    memcpy(f->id, text, n + 1);
}

static void parse_member(sv_request *r, sv_json *j, infer *f, tensor *x, const char *key) {
  bool found = false;
  if (strcmp(key, "id") == 0)
    parse_id(j, f);
  else if (strcmp(key, "parameters") == 0)
    parse_binary_flag(j, "binary_data_output", &found, &f->all_binary);
  else if (strcmp(key, "inputs") == 0 && !x->named)
    parse_inputs(r, j, f, x);
  else if (strcmp(key, "outputs") == 0) {
    sv_json_array(j);
    while (sv_json_item(j)) parse_output(j, f);
  } else
    sv_json_refuse(j, "unknown or repeated field '%.60s'", key);
}

/* Values after the JSON. */
static bool take_binary(sv_request *r, infer *f, const tensor *x, size_t head) {
  uint64_t size = x->wide ? sizeof(double) : sizeof(float);
  if (x->binary != r->n_body - head || x->binary % size != 0)
    return sv_fail(r, 400, "binary_data_size is %llu, but %zu bytes follow the JSON",
                   (unsigned long long)x->binary, r->n_body - head);
  f->n_values = x->binary / size;
  f->rows = sv_take(&r->arena, f->n_values ? f->n_values : 1, sizeof *f->rows);
  if (!f->rows) return sv_fail_memory(r);
  for (uint64_t i = 0; i < f->n_values; i++) {
    double wide;
    if (x->wide) {
      memcpy(&wide, r->body + head + i * size, size);
      f->rows[i] = (float)wide;
    } else {
      memcpy(&f->rows[i], r->body + head + i * size, size);
    }
  }
  return true;
}

static bool check_tensor(sv_request *r, const infer *f, const tensor *x) {
  uint32_t dim = kf_model_dim_in(r->world->model);
  if (!x->named || x->ndim != 2)
    return sv_fail(r, 422, "there must be an input named rows, of shape [N, %u]", dim);
  if (x->shape[1] != dim)
    return sv_fail(r, 422, "rows have %llu columns, the model takes %u",
                   (unsigned long long)x->shape[1], dim);
  if (x->shape[0] == 0) return sv_fail(r, 422, "the request has no row");
  if (x->shape[0] > SV_MAX_ROWS)
    return sv_fail(r, 413, "a request has at most %d rows", SV_MAX_ROWS);
  if (x->shape[0] * r->world->answers > SV_MAX_VALUES)
    return sv_fail(r, 413, "%llu rows with %u scores each are too many: at most %d scores in total",
                   (unsigned long long)x->shape[0], r->world->answers, SV_MAX_VALUES);
  if (f->n_values != x->shape[0] * dim)
    return sv_fail(r, 422, "the shape implies %llu values, but there are %llu",
                   (unsigned long long)(x->shape[0] * dim), (unsigned long long)f->n_values);
  return true;
}

/* The length of the JSON in the body. False: answered. */
static bool find_head(sv_request *r, size_t *head) {
  const char *length = sv_header(r, "Inference-Header-Content-Length");
  *head = r->n_body;
  if (!length) return true;
  char *end;
  unsigned long long n = strtoull(length, &end, 10);
  if (*length >= '0' && *length <= '9' && *end == '\0' && n <= r->n_body) {
    *head = (size_t)n;
    return true;
  }
  return sv_fail(r, 400, "Inference-Header-Content-Length is not a length within the body");
}

static bool may_infer(sv_request *r) {
  const char *rest = after_name(r), *type = sv_header(r, "Content-Type");
  bool json = type && strncasecmp(type, "application/json", 16) == 0;
  bool binary = type && strncasecmp(type, "application/octet-stream", 24) == 0 &&
                sv_header(r, "Inference-Header-Content-Length");
  if (!rest || strcmp(rest, "/infer") != 0) return sv_fail(r, 404, "there is no such model");
  if (type && !json && !binary) return sv_fail(r, 415, "the Content-Type must be application/json");
  return true;
}

bool sv_parse_infer(sv_request *r, kf_ctx *ctx) {
  (void)ctx;
  size_t head;
  tensor x = {0};
  infer *f = sv_take(&r->arena, 1, sizeof *f);
  if (!f) return sv_fail_memory(r);
  memset(f, 0, sizeof *f);
  if (!may_infer(r) || !find_head(r, &head)) return false;
  sv_json j = sv_json_of(r->body, head);
  char *key;
  sv_json_object(&j);
  while (r->stage != SV_DONE && sv_json_key(&j, &key)) parse_member(r, &j, f, &x, key);
  if (r->stage == SV_DONE) return false;
  if (!sv_json_end(&j)) return sv_fail(r, j.refused ? 422 : 400, "%s", j.error);
  if (head < r->n_body && x.has_data)
    return sv_fail(r, 422, "rows have data both in the JSON and after it");
  if (head < r->n_body && !take_binary(r, f, &x, head)) return false;
  if (!check_tensor(r, f, &x)) return false;
  r->in.kind = SV_ROW_VALUES;
  r->in.n = x.shape[0];
  r->in.rows = f->rows;
  r->in.infer = f;
  return true;
}

/* --- infer: the answer ------------------------------------------------------------------------ */

typedef struct tensors {
  float *scores; /* [n][answers] */
  int32_t *best; /* [n] */
  float *mapped; /* [n][dim_out] */
} tensors;

/* [classes] The position of each class among those that take part, by number. */
static uint32_t *positions(sv_request *r, const int32_t *classes) {
  uint32_t n = kf_model_classes(r->world->model), next = 0;
  uint32_t *position = sv_take(&r->arena, n, sizeof *position);
  if (!position) return NULL;
  memset(position, 0, n * sizeof *position);
  for (uint32_t i = 0; i < r->world->answers; i++) position[classes[i]] = 1;
  for (uint32_t k = 0; k < n; k++) position[k] = position[k] ? next++ : UINT32_MAX;
  return position;
}

static kf_status compute(sv_request *r, kf_ctx *ctx, unsigned wanted, tensors *out) {
  const kf_classifier *classifier;
  uint32_t answers = r->world->answers, finds;
  uint64_t n = r->in.n;
  kf_status status = sv_world_classifier(r->world, ctx, UINT32_MAX, &classifier, &finds);
  if (status != KF_OK) return status;
  int32_t *classes = sv_take(&r->arena, n * answers, sizeof *classes);
  double *scores = sv_take(&r->arena, n * answers, sizeof *scores);
  out->scores = sv_take(&r->arena, n * answers, sizeof *out->scores);
  out->best = sv_take(&r->arena, n, sizeof *out->best);
  out->mapped = sv_take(&r->arena, n * kf_model_dim_out(r->world->model), sizeof *out->mapped);
  if (!classes || !scores || !out->scores || !out->best || !out->mapped) return KF_ERR_MEM;
  status = kf_classifier_classify(ctx, classifier, r->in.rows, n, classes, scores);
  if (status != KF_OK) return status;
  const uint32_t *position = positions(r, classes);
  if (!position) return KF_ERR_MEM;
  for (uint64_t i = 0; i < n; i++) {
    out->best[i] = classes[i * answers];
    for (uint64_t at = i * answers; at < (i + 1) * answers; at++)
      out->scores[i * answers + position[classes[at]]] = (float)scores[at];
  }
  atomic_fetch_add(&r->server->metrics.rows, n);
  return wanted & OUT_MAPPED ? kf_transform(ctx, r->world->model, r->in.rows, n, NULL, out->mapped)
                             : KF_OK;
}

/* The name of the best class of row i or, without names, its number. */
static const char *class_text(const sv_request *r, const tensors *x, uint64_t i, char number[16]) {
  const char *name = kf_model_class_name(r->world->model, (uint32_t)x->best[i]);
  snprintf(number, 16, "%d", x->best[i]);
  return name ? name : number;
}

static size_t class_bytes(const sv_request *r, const tensors *x) {
  size_t total = 0;
  char number[16];
  for (uint64_t i = 0; i < r->in.n; i++) total += 4 + strlen(class_text(r, x, i, number));
  return total;
}

static void begin_output(sv_text *t, const char *name, const char *type, uint64_t n,
                         uint64_t columns) {
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "name", name);
  sv_json_string(t, "datatype", type);
  sv_json_open(t, "shape", '[');
  sv_json_count(t, NULL, n);
  if (columns > 0) sv_json_count(t, NULL, columns);
  sv_json_close(t, ']');
}

static void put_binary_size(sv_text *t, size_t n) {
  sv_json_open(t, "parameters", '{');
  sv_json_count(t, "binary_data_size", n);
  sv_json_close(t, '}');
}

static void put_floats(sv_text *t, const char *name, const float *values, uint64_t n,
                       uint64_t columns, bool binary) {
  begin_output(t, name, "FP32", n, columns);
  if (binary) {
    put_binary_size(t, n * columns * sizeof *values);
  } else {
    sv_json_open(t, "data", '[');
    for (uint64_t i = 0; i < n * columns; i++) sv_json_float(t, values[i]);
    sv_json_close(t, ']');
  }
  sv_json_close(t, '}');
}

static void put_classes(sv_request *r, const tensors *x, bool binary) {
  sv_text *t = &r->out;
  char number[16];
  begin_output(t, "class", "BYTES", r->in.n, 0);
  if (binary) {
    put_binary_size(t, class_bytes(r, x));
  } else {
    sv_json_open(t, "data", '[');
    for (uint64_t i = 0; i < r->in.n; i++) sv_json_string(t, NULL, class_text(r, x, i, number));
    sv_json_close(t, ']');
  }
  sv_json_close(t, '}');
}

static void put_class_bytes(sv_request *r, const tensors *x) {
  char number[16];
  for (uint64_t i = 0; i < r->in.n; i++) {
    const char *text = class_text(r, x, i, number);
    uint32_t n = (uint32_t)strlen(text);
    unsigned char head[4] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16),
                             (unsigned char)(n >> 24)};
    sv_put(&r->out, (const char *)head, 4);
    sv_put(&r->out, text, n);
  }
}

static void print_infer(sv_request *r, const infer *f, const tensors *x, unsigned wanted) {
  unsigned binary = (f->all_binary ? wanted & ~f->literal : 0) | (wanted & f->binary);
  uint64_t n = r->in.n, answers = r->world->answers, dim = kf_model_dim_out(r->world->model);
  sv_text *t = &r->out;
  char name[256];
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "model_name", sv_model_name(r->server, name, sizeof name));
  if (f->id[0]) sv_json_string(t, "id", f->id);
  sv_json_open(t, "outputs", '[');
  if (wanted & OUT_SCORES) put_floats(t, "scores", x->scores, n, answers, binary & OUT_SCORES);
  if (wanted & OUT_CLASS) put_classes(r, x, binary & OUT_CLASS);
  if (wanted & OUT_MAPPED) put_floats(t, "mapped", x->mapped, n, dim, binary & OUT_MAPPED);
  sv_json_close(t, ']');
  sv_json_close(t, '}');
  if (binary) r->json_head = (unsigned)t->n;
  if (binary & OUT_SCORES) sv_put(t, (const char *)x->scores, n * answers * sizeof *x->scores);
  if (binary & OUT_CLASS) put_class_bytes(r, x);
  if (binary & OUT_MAPPED) sv_put(t, (const char *)x->mapped, n * dim * sizeof *x->mapped);
  sv_answer(r, 200, binary ? "application/octet-stream" : "application/json");
}

void sv_work_infer(sv_request *r, kf_ctx *ctx) {
  const infer *f = r->in.infer;
  unsigned wanted = f->wanted ? f->wanted : OUT_SCORES | OUT_CLASS;
  tensors x;
  kf_status status = compute(r, ctx, wanted, &x);
  if (status == KF_ERR_MEM)
    sv_fail_memory(r);
  else if (status != KF_OK)
    sv_fail_status(r, ctx, status);
  else
    print_infer(r, f, &x, wanted);
}
