/* The body of a request to 'koofu serve'. The first byte chooses the route and the content type.
 * The rest of the server is left out; this file reads everything that the parsers accept. */
#include "server.h"
#include "tiny_model.h"

#include <libgen.h>
#include <stdarg.h>

enum { DIM = 3, CLASSES = 2, ROWS = 6 };

static const char *content_type, *head_length;
static kf_ctx *ctx;
static sv_server server;
static sv_world world;
static sv_shelf shelf;

/* --- stand-ins for http.c, state.c and describe.c --------------------------------------------- */

const char *sv_header(sv_request *r, const char *name) {
  (void)r;
  if (strcmp(name, "Content-Type") == 0) return content_type;
  return strcmp(name, "Inference-Header-Content-Length") == 0 ? head_length : NULL;
}

const char *sv_arg(sv_request *r, const char *name) {
  (void)r;
  (void)name;
  return NULL;
}

bool sv_arg_number(sv_request *r, const char *name, uint64_t low, uint64_t high, uint64_t *value) {
  (void)r;
  (void)name;
  (void)low;
  (void)high;
  (void)value;
  return true;
}

void sv_answer(sv_request *r, unsigned status, const char *type) {
  (void)type;
  r->status = status;
  r->stage = SV_DONE;
}

bool sv_fail(sv_request *r, unsigned status, const char *format, ...) {
  char message[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  sv_json_string(&r->out, NULL, message); /* must be printable, whatever it holds */
  if (status >= 500) abort();
  sv_answer(r, status, NULL);
  return false;
}

bool sv_fail_memory(sv_request *r) { return sv_fail(r, 429, "out of memory"); }

void sv_answer_json(sv_request *r, unsigned status) { sv_answer(r, status, NULL); }

bool sv_fail_status(sv_request *r, kf_ctx *own, kf_status status) {
  return sv_fail(r, status == KF_ERR_MEM ? 429 : 422, "%s", kf_errmsg(own));
}

kf_status sv_world_classifier(sv_world *w, kf_ctx *own, uint32_t top, const kf_classifier **out,
                              uint32_t *finds) {
  (void)w;
  (void)own;
  (void)top;
  (void)out;
  (void)finds;
  return KF_ERR_ARG;
}

const char *sv_model_name(const sv_server *s, char *name, size_t size) {
  (void)s;
  snprintf(name, size, "model");
  return name;
}

/* --- the target ------------------------------------------------------------------------------- */

static void check(kf_status status) {
  if (status != KF_OK) abort();
}

static void prepare(void) {
  static const float rows[ROWS][DIM] = {{1, 0, 0}, {1, 1, 0}, {1, 0, 1},
                                        {0, 1, 0}, {0, 1, 1}, {1, 2, 0}};
  static const int32_t labels[ROWS] = {0, 0, 0, 1, 1, 1};
  static const char *const names[CLASSES] = {"a", "b"};
  static char folder[4096];
  if (ctx) return;
  kf_data *data;
  kf_fit_options fit = {.lambda = {1, KF_LAMBDA_RELATIVE}};
  check(kf_ctx_new(&(kf_ctx_options){.threads = 1}, &ctx));
  check(kf_data_open_memory(ctx, rows[0], ROWS, DIM, labels, names, CLASSES, &data));
  check(kf_fit(ctx, data, &fit, &world.model, NULL));
  check(kf_gallery_new(ctx, data, world.model, NULL, &shelf.koofu));
  tiny_write("model.safetensors", 0, N_TINY);
  snprintf(folder, sizeof folder, "%s",
           fuzz_write("config.json", TINY_CONFIG, strlen(TINY_CONFIG)));
  check(kf_encoder_load(ctx, dirname(folder), NULL, &server.encoder));
  shelf.any = shelf.koofu;
  shelf.rows = data;
  shelf.n = ROWS;
  world.shelf = &shelf;
  world.answers = CLASSES;
  server.options.model = "model.safetensors";
}

static volatile double sum; /* of all values of a request, so that all are read */

static void read_all(sv_request *r) {
  const sv_input *in = &r->in;
  for (uint64_t i = 0; in->rows && in->kind == SV_ROW_VALUES && i < in->n * DIM; i++)
    sum += in->rows[i];
  for (uint64_t i = 0; in->kind == SV_ROW_NUMBERS && i < in->n; i++)
    if (in->numbers[i] >= ROWS) abort();
  for (uint64_t i = 0; in->kind == SV_PICTURES && i < in->n; i++) {
    const unsigned char *bytes = in->pictures[i].bytes;
    for (size_t at = 0; at < in->pictures[i].n; at++) sum += bytes[at];
  }
  if (in->n_files > (in->kind == SV_ROW_VALUES ? 1 : in->n)) abort();
  for (uint64_t i = 0; i < in->n_files; i++)
    if (in->files[i]) sum += (double)strlen(in->files[i]);
  if (in->kind == SV_ROW_NUMBERS && in->n <= 16 && !sv_fetch_rows(r, ctx)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool (*const parsers[])(sv_request *, kf_ctx *) = {
      sv_parse_classify, sv_parse_search, sv_parse_class, sv_parse_embeddings, sv_parse_infer};
  static const char *const types[] = {"application/json",
                                      "application/x-npy",
                                      "image/png",
                                      "application/octet-stream",
                                      "application/json; charset=utf-8",
                                      "text/plain",
                                      "multipart/form-data; boundary=xyz"};
  prepare();
  if (size < 2) return 0;
  char number[24];
  snprintf(number, sizeof number, "%u", data[1]);
  content_type = types[data[0] / 8 % SV_COUNT_OF(types)];
  head_length = data[0] % 8 >= 5 ? number : NULL; /* a binary tensor after the JSON */
  atomic_store(&server.budget.left, (size_t)8 << 20);
  sv_request r = {.server = &server, .world = &world, .rest = "model/infer", .n_body = size - 2};
  r.arena.budget = &server.budget;
  r.out.arena = &r.arena;
  r.body = sv_take(&r.arena, r.n_body + 1, 1);
  if (!r.body) return 0;
  memcpy(r.body, data + 2, r.n_body);
  r.body[r.n_body] = '\0';
  size_t which = data[0] % 8 >= 5 ? 4 : data[0] % 8;
  if (parsers[which](&r, ctx))
    read_all(&r);
  else if (r.stage != SV_DONE)
    abort(); /* refused without an answer */
  sv_release(&r.arena);
  if (atomic_load(&server.budget.left) != (size_t)8 << 20) abort();
  return 0;
}
