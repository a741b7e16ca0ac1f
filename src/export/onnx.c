/* onnx.c - a model as a graph for ONNX runtimes: IR version 8, opset 17.
 *
 *     rows [N, D]  ->  mapped [N, L], scores [N, K], probabilities [N, K]
 *
 * A message of protobuf begins with its length, so everything but the matrices is built in memory
 * first; the matrices are then written straight from the model. A protobuf has at most 2 GiB:
 * larger matrices go to a file beside it (external data), each at the beginning of a page, for
 * runtimes that map the file.
 *
 * The graph computes in f64 and rounds to f32 where kf_transform and kf_classify do, so it gives
 * the same answers; or, for runtimes without f64, it computes in f32 throughout. A row is divided
 * by its largest absolute value before its length is computed, so that the length neither overflows
 * nor underflows in f32; zero rows are divided by one. */
#include "export/protobuf.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { FLOAT = 1, DOUBLE = 11 };    /* TensorProto.DataType */
enum { OPSET = 17, IR = 8 };        /* versions */
enum { MAX_TENSORS = 16 };          /* matrices and constants of a graph */
enum { PAGE = 4096, SMALL = 1024 }; /* bytes: alignment of external data; what stays inside */
#define MAX_BYTES INT32_MAX         /* of a protobuf */

/* --- the graph -------------------------------------------------------------------------------- */

typedef struct tensor {
  const char *name;
  int type;
  uint32_t ndim;
  uint64_t shape[2];
  const void *data;
  uint64_t bytes;
  uint64_t offset;  /* in the file of external data */
  bool outside;     /* stored there */
  kf_string header; /* the message without the data */
} tensor;

typedef struct graph {
  const kf_head *head;
  int type;         /* of the arithmetic */
  bool too_large;   /* a number overflows that type */
  kf_string body;   /* fields of the graph, except its tensors */
  kf_string ending; /* fields of the model after the graph */
  kf_arena arena;
  size_t n;
  tensor tensors[MAX_TENSORS];
} graph;

/* ndim 0: a scalar; 1: a vector of `rows` numbers. */
static void add_tensor(graph *g, const char *name, int type, uint32_t ndim, uint64_t rows,
                       uint64_t columns, const void *data) {
  uint64_t count = ndim == 0 ? 1 : ndim == 1 ? rows : rows * columns; /* in memory, so it fits */
  g->tensors[g->n++] = (tensor){.name = name,
                                .type = type,
                                .ndim = ndim,
                                .shape = {rows, columns},
                                .data = data,
                                .bytes = count * (type == FLOAT ? 4 : 8)};
}

/* Adds numbers in the type of the arithmetic. `from` must outlive the graph; f32 is a copy. */
static void add_numbers(graph *g, const char *name, uint32_t ndim, uint64_t n, const double *from) {
  if (g->type == DOUBLE) {
    add_tensor(g, name, DOUBLE, ndim, n, 1, from);
    return;
  }
  float *rounded = kf_arena_take(&g->arena, n, sizeof *rounded);
  for (uint64_t i = 0; rounded != NULL && i < n; i++)
    g->too_large |= !isfinite(rounded[i] = (float)from[i]);
  add_tensor(g, name, FLOAT, ndim, n, 1, rounded);
}

static void add_number(graph *g, const char *name, double value) {
  double *kept = kf_arena_take(&g->arena, 1, sizeof *kept);
  if (kept == NULL) return;
  *kept = value;
  add_numbers(g, name, 0, 1, kept);
}

typedef struct attribute {
  const char *name;
  unsigned value;
  bool list;
} attribute;
static const attribute no_attribute[] = {{0}};
static const attribute of_each_row[] = {{"axes", 1, true}, {"keepdims", 1, false}, {0}};
static const attribute transposed[] = {{"transB", 1, false}, {0}};
static const attribute along_rows[] = {{"axis", 1, false}, {0}};

/* Inputs are separated by single spaces. The node is named after its output. */
static void add_node(graph *g, const char *type, const char *inputs, const char *output,
                     const attribute *attributes) {
  kf_string node = {0};
  for (const char *in = inputs; *in != '\0'; in += *in == ' ') {
    size_t n = strcspn(in, " ");
    kf_pb_bytes(&node, 1, in, n);
    in += n;
  }
  kf_pb_text(&node, 2, output);
  kf_pb_text(&node, 3, output);
  kf_pb_text(&node, 4, type);
  for (const attribute *a = attributes; a->name != NULL; a++) {
    kf_string one = {0};
    kf_pb_text(&one, 1, a->name);
    kf_pb_number(&one, a->list ? 8 : 3, a->value);
    kf_pb_number(&one, 20, a->list ? 7 : 2);
    kf_pb_message(&node, 5, &one);
  }
  kf_pb_message(&g->body, 1, &node);
}

/* [N, columns] of f32, as an input (11) or an output (12). */
static void add_value(graph *g, unsigned field, const char *name, uint64_t columns) {
  kf_string value = {0}, type = {0}, matrix = {0}, shape = {0}, dim = {0};
  kf_pb_text(&dim, 2, "N");
  kf_pb_message(&shape, 1, &dim);
  kf_pb_number(&dim, 1, columns);
  kf_pb_message(&shape, 1, &dim);
  kf_pb_number(&matrix, 1, FLOAT);
  kf_pb_message(&matrix, 2, &shape);
  kf_pb_message(&type, 1, &matrix);
  kf_pb_text(&value, 1, name);
  kf_pb_message(&value, 2, &type);
  kf_pb_message(&g->body, field, &value);
}

/* Copies text to `out` with each '#' replaced by the name. */
static const char *with_name(char out[64], const char *text, const char *name) {
  size_t n = 0;
  for (; *text != '\0'; text++)
    n += (size_t)snprintf(out + n, 64 - n, "%.*s", *text == '#' ? 16 : 1,
                          *text == '#' ? name : text);
  return out;
}

/* NAME_most: the largest absolute value in each row of NAME. NAME_there: whether it is not zero.
 * NAME_unit: the rows scaled to unit length; zero rows stay zero. */
static void add_unit(graph *g, const char *name) {
  static const struct {
    const char *type, *inputs, *output;
    const attribute *attributes;
  } steps[] = {
      {"Abs", "#", "#_abs", no_attribute},
      {"ReduceMax", "#_abs", "#_most", of_each_row},
      {"Greater", "#_most zero", "#_there", no_attribute},
      {"Where", "#_there #_most one", "#_scale", no_attribute},
      {"Div", "# #_scale", "#_scaled", no_attribute},
      {"ReduceL2", "#_scaled", "#_length", of_each_row},
      {"Where", "#_there #_length one", "#_divisor", no_attribute},
      {"Div", "#_scaled #_divisor", "#_unit", no_attribute},
  };
  char in[64], out[64];
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    add_node(g, steps[i].type, with_name(in, steps[i].inputs, name),
             with_name(out, steps[i].output, name), steps[i].attributes);
}

/* --- map, scores, probabilities --------------------------------------------------------------- */

/* Converts `in` to FLOAT or DOUBLE; a no-op if all arithmetic is in f32. */
static void add_cast(graph *g, unsigned to, const char *in, const char *out) {
  const attribute cast[] = {{"to", to, false}, {0}};
  bool same = g->type == FLOAT;
  add_node(g, same ? "Identity" : "Cast", in, out, same ? no_attribute : cast);
}

/* Adds the rows 'x' and 'x_unit', and the mapped rows 'z' and 'z_unit'. Zero rows map to zeros. */
static void add_map(graph *g) {
  const kf_head *h = g->head;
  const kf_map *map = &h->model->map;
  add_cast(g, DOUBLE, "rows", "x");
  add_unit(g, "x");
  const char *in = h->unit_rows ? "x_unit transform" : "x transform";
  if (h->mean != NULL) {
    add_numbers(g, "mean", 1, h->dim_in, map->mean);
    add_node(g, "Sub", h->unit_rows ? "x_unit mean" : "x mean", "centred", no_attribute);
    in = "centred transform";
  }
  const void *transform = g->type == FLOAT ? (const void *)h->transform : map->transform;
  add_tensor(g, "transform", g->type, 2, h->dim_out, h->dim_in, transform);
  add_node(g, "Gemm", in, "turned", transposed);
  add_node(g, "Where", "x_there turned zero", "z", no_attribute);
  add_unit(g, "z");
  add_cast(g, FLOAT, h->unit_mapped ? "z_unit" : "z", "mapped");
}

/* Returns the name of the queries, which are compared with the prototypes. The caller rounds them
 * to f32, as kf_prototypes_queries does. */
static const char *add_query(graph *g) {
  const kf_head *h = g->head;
  const kf_prototypes *p = h->prototypes;
  if (p->part == KF_PART_FUSED) {
    add_number(g, "alpha", (double)(float)h->model->alpha);
    add_node(g, "Mul", "z_unit alpha", "z_weighted", no_attribute);
    add_node(g, "Concat", "x_unit z_weighted", "both", along_rows);
    return "both";
  }
  if (p->raw || p->part == KF_PART_TEXT) return h->unit_rows || h->unit_query ? "x_unit" : "x";
  return h->unit_query ? "z_unit" : "z";
}

/* -|q - p|^2 / 2 = q.p - |q|^2 / 2 - |p|^2 / 2; the last term is part of the offset. */
static void add_distances(graph *g) {
  add_number(g, "half", 0.5);
  add_number(g, "minus_two", -2);
  add_node(g, "ReduceSumSquare", "query", "length2", of_each_row);
  add_node(g, "Mul", "length2 half", "half_length2", no_attribute);
  add_node(g, "Sub", "products half_length2", "near", no_attribute);
  add_node(g, "Mul", "near minus_two", "difference2", no_attribute);
  add_node(g, "Max", "difference2 zero", "distance2", no_attribute);
  add_node(g, "Sqrt", "distance2", "distances", no_attribute);
}

static double length2(const float *x, uint64_t n) {
  double sum = 0;
  for (uint64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}

static void add_offset(graph *g) {
  const kf_head *h = g->head;
  double *offset = kf_arena_take_zero(&g->arena, h->n, sizeof *offset);
  for (uint64_t j = 0; offset != NULL && j < h->n; j++) {
    if (h->offset != NULL) offset[j] = h->offset[j];
    if (h->distances) offset[j] -= 0.5 * length2(h->rows + j * h->dim, h->dim);
  }
  if (offset != NULL) add_numbers(g, "offset", 1, h->n, offset);
}

static void add_scores(graph *g) {
  const kf_head *h = g->head;
  bool offset = h->offset != NULL || h->distances;
  add_cast(g, FLOAT, add_query(g), "rounded");
  add_cast(g, DOUBLE, "rounded", "query");
  add_tensor(g, "prototypes_f32", FLOAT, 2, h->n, h->dim, h->rows);
  add_cast(g, DOUBLE, "prototypes_f32", "prototypes");
  if (offset) add_offset(g);
  const char *in = offset ? "query prototypes offset" : "query prototypes";
  add_node(g, "Gemm", in, "products", transposed);
  if (h->distances) add_distances(g);
  add_cast(g, FLOAT, h->distances ? "distances" : "products", "scores");
  if (!(h->temperature > 0)) return;
  add_number(g, "temperature", h->temperature);
  add_node(g, "Mul", h->distances ? "near temperature" : "products temperature", "tempered",
           no_attribute);
  add_node(g, "Softmax", "tempered", "shares", along_rows);
  add_cast(g, FLOAT, "shares", "probabilities");
}

static void add_all(graph *g) {
  const kf_head *h = g->head;
  add_number(g, "zero", 0);
  add_number(g, "one", 1);
  add_map(g);
  add_scores(g);
  kf_pb_text(&g->body, 2, "koofu");
  add_value(g, 11, "rows", h->dim_in);
  add_value(g, 12, "mapped", h->dim_out);
  add_value(g, 12, "scores", h->n);
  if (h->temperature > 0) add_value(g, 12, "probabilities", h->n);
}

/* --- metadata --------------------------------------------------------------------------------- */

static void add_meta_number(graph *g, const char *key, double value) {
  char text[32];
  kf_format_f64(value, text);
  kf_pb_entry(&g->ending, 14, key, text);
}

static void add_meta(graph *g) {
  const kf_head *h = g->head;
  const kf_model *m = h->model;
  static const char *const parts[] = {"", "images", "text", "fused"};
  kf_string names = {0}, numbers = {0};
  for (uint32_t j = 0; j < h->n; j++) {
    char number[16];
    kf_string_add(&names, j == 0 ? "[" : ",", 1);
    kf_string_add_json(&names, kf_head_name(h, j, number));
    kf_string_addf(&numbers, "%c%d", j == 0 ? '[' : ',', (int)h->prototypes->ids[j]);
  }
  kf_string_add(&names, "]", 1);
  kf_string_add(&numbers, "]", 1);
  g->ending.failed |= names.failed || numbers.failed;
  if (!g->ending.failed) kf_pb_entry(&g->ending, 14, "classes", names.data);
  if (!g->ending.failed) kf_pb_entry(&g->ending, 14, "class_numbers", numbers.data);
  kf_string_clear(&names);
  kf_string_clear(&numbers);
  kf_pb_entry(&g->ending, 14, "scores", h->distances ? "distances" : "cosines");
  kf_pb_entry(&g->ending, 14, "part", parts[h->prototypes->part]);
  kf_pb_entry(&g->ending, 14, "space", h->prototypes->raw ? "original" : "mapped");
  if (h->temperature > 0) add_meta_number(g, "temperature", h->temperature);
  if (m->reject_share > 0 && h->own) {
    add_meta_number(g, "reject", m->reject);
    add_meta_number(g, "reject_share", m->reject_share);
  }
  if (m->map.origin.known) kf_pb_entry(&g->ending, 14, "encoder", m->map.origin.name);
}

/* --- the files -------------------------------------------------------------------------------- */

/* Builds the message of a tensor, up to its data if that is inside. */
static void describe(tensor *t, const char *data_name) {
  kf_string *to = &t->header;
  for (uint32_t i = 0; i < t->ndim; i++) kf_pb_number(to, 1, t->shape[i]);
  kf_pb_number(to, 2, (uint64_t)t->type);
  kf_pb_text(to, 8, t->name);
  if (!t->outside) {
    kf_pb_length(to, 9, t->bytes);
    return;
  }
  char number[24];
  kf_pb_entry(to, 13, "location", data_name);
  snprintf(number, sizeof number, "%" PRIu64, t->offset);
  kf_pb_entry(to, 13, "offset", number);
  snprintf(number, sizeof number, "%" PRIu64, t->bytes);
  kf_pb_entry(to, 13, "length", number);
  kf_pb_number(to, 14, 1);
}

static uint64_t message_size(const tensor *t) { return t->header.n + (t->outside ? 0 : t->bytes); }

/* Describes all tensors; returns the length of the graph in bytes. */
static uint64_t describe_all(graph *g, bool outside, const char *data_name) {
  uint64_t size = g->body.n, offset = 0;
  for (size_t i = 0; i < g->n; i++) {
    tensor *t = &g->tensors[i];
    kf_string_clear(&t->header);
    t->outside = outside && t->bytes > SMALL;
    if (t->outside) {
      t->offset = offset;
      offset = (offset + t->bytes + PAGE - 1) / PAGE * PAGE;
    }
    describe(t, data_name);
    g->body.failed |= t->header.failed;
    size += 1 + kf_pb_varint_size(message_size(t)) + message_size(t);
  }
  return size;
}

/* The fields before the graph. */
static void begin_model(kf_string *to, uint64_t graph_size) {
  kf_string opset = {0};
  kf_pb_number(&opset, 2, OPSET);
  kf_pb_number(to, 1, IR);
  kf_pb_text(to, 2, "koofu");
  kf_pb_text(to, 3, KF_VERSION);
  kf_pb_message(to, 8, &opset);
  kf_pb_length(to, 7, graph_size);
}

static kf_status write_tensor(kf_out *out, const tensor *t, kf_err *err) {
  kf_string start = {0};
  kf_pb_length(&start, 5, message_size(t));
  kf_status status =
      start.failed ? kf_fail_memory(err) : kf_out_write(out, start.data, start.n, err);
  kf_string_clear(&start);
  KF_TRY(status);
  KF_TRY(kf_out_write(out, t->header.data, t->header.n, err));
  return t->outside ? KF_OK : kf_out_write(out, t->data, t->bytes, err);
}

static kf_status write_model(kf_out *out, const graph *g, const kf_string *start, kf_err *err) {
  KF_TRY(kf_out_write(out, start->data, start->n, err));
  KF_TRY(kf_out_write(out, g->body.data, g->body.n, err));
  for (size_t i = 0; i < g->n; i++) KF_TRY(write_tensor(out, &g->tensors[i], err));
  KF_TRY(kf_out_write(out, g->ending.data, g->ending.n, err));
  return kf_out_commit(out, err);
}

static kf_status write_outside(kf_out *out, const graph *g, kf_err *err) {
  for (size_t i = 0; i < g->n; i++) {
    const tensor *t = &g->tensors[i];
    if (t->outside) KF_TRY(kf_out_write_at(out, t->offset, t->data, t->bytes, err));
  }
  return kf_out_commit(out, err);
}

static kf_status write_files(kf_ctx *ctx, graph *g, uint64_t most, const char *path) {
  kf_err *err = &ctx->err;
  kf_string data_path = {0}, start = {0};
  kf_string_addf(&data_path, "%s.data", path);
  if (data_path.failed) return kf_fail_memory(err);
  const char *slash = strrchr(data_path.data, '/');
  const char *data_name = slash != NULL ? slash + 1 : data_path.data;
  uint64_t size = describe_all(g, false, data_name);
  bool outside = size + g->ending.n + PAGE > most;
  if (outside) size = describe_all(g, true, data_name);
  begin_model(&start, size);
  kf_out out = {0}, data = {0};
  kf_status status = KF_OK;
  if (g->body.failed || g->ending.failed || start.failed || g->arena.failed)
    status = kf_fail_memory(err);
  else if (g->too_large)
    status = kf_fail_single(err);
  else if (size + g->ending.n + PAGE > MAX_BYTES)
    status = kf_fail(err, KF_ERR_DATA, "%s: the class names take more than 2 GiB", path);
  if (status == KF_OK) status = kf_out_open(&out, ctx, path, err);
  if (status == KF_OK && outside) status = kf_out_open(&data, ctx, data_path.data, err);
  if (status == KF_OK) status = write_model(&out, g, &start, err);
  if (status == KF_OK && outside) status = write_outside(&data, g, err);
  kf_out_abort(&out);
  kf_out_abort(&data);
  kf_string_clear(&data_path);
  kf_string_clear(&start);
  return status;
}

kf_status kf_export_onnx(kf_ctx *ctx, const kf_model *model, const kf_export_options *o,
                         const char *path) {
  kf_head head;
  graph *g = kf_alloc_zero(1, sizeof *g);
  kf_status status = kf_head_make(&head, ctx, model, o);
  if (status == KF_OK && g == NULL) status = kf_fail_memory(&ctx->err);
  if (status == KF_OK) {
    g->head = &head;
    g->type = o->single ? FLOAT : DOUBLE;
    add_all(g);
    add_meta(g);
    bool given = o->inline_bytes > 0 && o->inline_bytes < MAX_BYTES;
    status = write_files(ctx, g, given ? o->inline_bytes : MAX_BYTES, path);
    for (size_t i = 0; i < g->n; i++) kf_string_clear(&g->tensors[i].header);
    kf_string_clear(&g->body);
    kf_string_clear(&g->ending);
    kf_arena_free(&g->arena);
  }
  kf_free(g);
  kf_head_clear(&head);
  return status;
}
