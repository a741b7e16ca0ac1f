/* describe.c - what is served: /v1/info and /v1/classes; adding and removing classes. */
#include "journal.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

const char *sv_base_name(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? slash + 1 : path;
}

const char *sv_model_name(const sv_server *s, char *name, size_t size) {
  snprintf(name, size, "%s", s->demo ? "demo" : sv_base_name(s->options.model));
  char *dot = strrchr(name, '.');
  if (dot && strcmp(dot, ".safetensors") == 0) *dot = '\0';
  return name;
}

static const char *metric_of(const kf_model *model) {
  return kf_model_fused(model) || kf_model_normalized(model) ? "cosine" : "euclidean";
}

static void put_model(sv_request *r) {
  const kf_model *m = r->world->model;
  sv_text *t = &r->out;
  double share, reject = kf_model_reject(m, &share);
  sv_json_open(t, "model", '{');
  sv_json_string(t, "path_name", r->server->demo ? "demo" : sv_base_name(r->server->options.model));
  sv_json_count(t, "dim_in", kf_model_dim_in(m));
  sv_json_count(t, "dim", kf_model_dim_out(m));
  sv_json_count(t, "classes", kf_model_classes(m));
  sv_json_string(t, "metric", metric_of(m));
  sv_json_bool(t, "text", kf_model_fused(m));
  sv_json_bool(t, "probabilities", r->world->probabilities);
  share > 0 ? sv_json_real(t, "reject", reject) : sv_json_null(t, "reject");
  sv_json_string(t, "encoder", kf_origin_name(kf_model_origin(m)));
  sv_json_close(t, '}');
}

static void put_gallery(sv_request *r) {
  const sv_shelf *shelf = r->world->shelf;
  sv_text *t = &r->out;
  if (!shelf) {
    sv_json_null(t, "gallery");
    return;
  }
  sv_json_open(t, "gallery", '{');
  sv_json_count(t, "rows", shelf->n);
  sv_json_count(t, "dim", kf_gallery_dim(shelf->any));
  sv_json_string(t, "metric", kf_metric_name(kf_gallery_metric(shelf->any)));
  sv_json_bool(t, "labels", kf_gallery_has_labels(shelf->any));
  sv_json_bool(t, "ids", sv_shelf_id(shelf, 0) != NULL);
  sv_json_bool(t, "images", sv_has_images(r->server));
  sv_json_bool(t, "raw", shelf->raw != NULL);
  sv_json_bool(t, "koofu", shelf->koofu != NULL);
  sv_json_close(t, '}');
}

static bool has_tower(const sv_server *s, bool text) {
  return s->encoder &&
         (text ? kf_encoder_context(s->encoder) : kf_encoder_image_size(s->encoder)) > 0;
}

static void put_encoder(sv_request *r) {
  const kf_encoder *e = r->server->encoder;
  sv_text *t = &r->out;
  if (!e) {
    sv_json_null(t, "encoder");
    return;
  }
  sv_json_open(t, "encoder", '{');
  sv_json_string(t, "name", kf_origin_name(kf_encoder_origin(e)));
  sv_json_count(t, "dim", kf_encoder_dim(e));
  sv_json_count(t, "image_size", kf_encoder_image_size(e));
  sv_json_bool(t, "text", has_tower(r->server, true));
  sv_json_close(t, '}');
}

static void put_abilities(sv_request *r) {
  const sv_shelf *shelf = r->world->shelf;
  sv_text *t = &r->out;
  bool rows = shelf && shelf->rows;
  sv_json_open(t, "can", '{');
  sv_json_bool(t, "picture", has_tower(r->server, false));
  sv_json_bool(t, "text", has_tower(r->server, true));
  sv_json_bool(t, "search", shelf != NULL);
  sv_json_bool(t, "classify_rows", rows);
  sv_json_bool(t, "add_class", rows || has_tower(r->server, false));
  sv_json_bool(t, "add_class_by_name",
               has_tower(r->server, true) && kf_model_fused(r->world->model));
  sv_json_bool(t, "map", shelf != NULL);
  sv_json_close(t, '}');
}

static void put_missing(sv_request *r) {
  const sv_shelf *shelf = r->world->shelf;
  sv_text *t = &r->out;
  sv_json_open(t, "missing", '[');
  if (r->server->demo)
    sv_json_string(t, NULL,
                   "no encoder and no files: this is the demo, a synthetic world; choose a row of "
                   "its gallery");
  else if (!r->server->encoder)
    sv_json_string(t, NULL, "no encoder: start with --encoder DIR to drop pictures and type words");
  else if (!has_tower(r->server, true))
    sv_json_string(t, NULL, "no text tower: this encoder takes pictures only");
  if (!shelf)
    sv_json_string(t, NULL,
                   "no gallery: start with --rows DATA or --gallery FILE to search and see a map");
  if (shelf && !shelf->rows)
    sv_json_string(
        t, NULL,
        "no raw rows: start with --rows DATA to compare spaces and make classes from rows");
  if (shelf && !sv_has_images(r->server))
    sv_json_string(t, NULL,
                   sv_shelf_id(shelf, 0) ? "no pictures: start with --images DIR to see them"
                                         : "no pictures: the rows of the gallery have no ids");
  sv_json_close(t, ']');
}

void sv_work_info(sv_request *r, kf_ctx *ctx) {
  sv_text *t = &r->out;
  (void)ctx;
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "koofu", kf_version());
  sv_json_bool(t, "demo", r->server->demo);
  put_model(r);
  put_gallery(r);
  put_encoder(r);
  put_abilities(r);
  put_missing(r);
  sv_answer_json(r, 200);
}

/* --- models, as OpenAI lists them ------------------------------------------------------------- */

static void put_listed(sv_request *r, const char *id) {
  sv_text *t = &r->out;
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "id", id);
  sv_json_string(t, "object", "model");
  sv_json_int(t, "created", r->world->base->written);
  sv_json_string(t, "owned_by", "koofu");
  sv_json_close(t, '}');
}

void sv_work_models(sv_request *r, kf_ctx *ctx) {
  const kf_encoder *e = r->server->encoder;
  sv_text *t = &r->out;
  char name[256];
  (void)ctx;
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "object", "list");
  sv_json_open(t, "data", '[');
  put_listed(r, sv_model_name(r->server, name, sizeof name));
  if (e) put_listed(r, kf_origin_name(kf_encoder_origin(e)));
  sv_json_close(t, ']');
  sv_answer_json(r, 200);
}

/* --- classes ---------------------------------------------------------------------------------- */

static void put_one_class(sv_request *r, const sv_world *w, uint32_t k, const char *key) {
  const char *name = kf_model_class_name(w->model, k);
  const sv_added *added = name ? sv_world_added(w, name) : NULL;
  int64_t rows = added ? (int64_t)added->rows : kf_model_count(w->model, k);
  sv_text *t = &r->out;
  sv_json_open(t, key, '{');
  sv_json_class(t, "name", name, k);
  sv_put_name(t, w, k);
  sv_json_bool(t, "added", added != NULL);
  rows > 0 && !(added && added->text) ? sv_json_int(t, "rows", rows) : sv_json_null(t, "rows");
  sv_json_bool(t, "text", kf_model_class_has_text(w->model, k));
  sv_json_close(t, '}');
}

void sv_work_classes(sv_request *r, kf_ctx *ctx) {
  const sv_world *w = r->world;
  uint32_t n = kf_model_classes(w->model);
  sv_text *t = &r->out;
  (void)ctx;
  sv_json_open(t, NULL, '{');
  sv_json_open(t, "classes", '[');
  for (uint32_t k = 0; k < n; k++) put_one_class(r, w, k, NULL);
  sv_json_close(t, ']');
  sv_json_count(t, "added", w->n_added);
  sv_put_command(r, sv_classes_command);
  sv_answer_json(r, 200);
}

/* Names go into files with one name per line, and to terminals. */
static bool is_plain(const char *name) {
  for (const unsigned char *c = (const unsigned char *)name; *c; c++)
    if (*c < 0x20 || *c == 0x7f) return false;
  return true;
}

static void fail_change(sv_request *r, kf_status status, const char *message) {
  if (status == KF_ERR_IO)
    sv_fail(r, 507, "nothing was changed: %s", message);
  else if (status == KF_ERR_MEM)
    sv_fail(r, 503, "nothing was changed: out of memory");
  else
    sv_fail(r, status == KF_ERR_INTERNAL ? 500 : 422, "%s", message);
}

static void answer_added(sv_request *r) {
  sv_world *w = sv_world_get(r->server);
  int64_t k = sv_world_class(w, r->in.name);
  sv_text *t = &r->out;
  sv_json_open(t, NULL, '{');
  if (k >= 0) put_one_class(r, w, (uint32_t)k, "class");
  sv_put_command(r, sv_merge_command);
  sv_world_put(w);
  sv_answer_json(r, 201);
}

void sv_work_add_class(sv_request *r, kf_ctx *ctx) {
  const sv_input *in = &r->in;
  char message[512];
  sv_world *now = sv_world_get(r->server); /* that of the request may be out of date */
  bool there = sv_world_class(now, in->name) >= 0, full = now->n_added >= SV_MAX_ADDED;
  bool named = kf_model_class_name(now->model, 0) != NULL;
  sv_world_put(now);
  if (there)
    sv_fail(r, 409, "there already is a class with this name");
  else if (!named)
    sv_fail(r, 422, "the classes of this model have no names, so none can be added by name");
  else if (!is_plain(in->name))
    sv_fail(r, 422, "a name must not contain control characters");
  else if (full)
    sv_fail(
        r, 422,
        "%d classes have been added; merge them into the model with koofu add-class --from-journal",
        SV_MAX_ADDED);
  if (r->stage == SV_DONE) return;
  kf_status status =
      sv_state_add(r->server, ctx, in->name, in->rows, in->n, kf_model_dim_in(r->world->model),
                   in->by_name, message, sizeof message);
  if (status == KF_OK)
    answer_added(r);
  else
    fail_change(r, status, message);
}

void sv_work_remove_class(sv_request *r, kf_ctx *ctx) {
  char message[512];
  sv_world *now = sv_world_get(r->server);
  bool there = sv_world_class(now, r->rest) >= 0, added = sv_world_added(now, r->rest) != NULL;
  sv_world_put(now);
  if (!there)
    sv_fail(r, 404, "there is no class with this name");
  else if (!added)
    sv_fail(r, 409, "this class is part of the model file; only added classes can be removed");
  if (r->stage == SV_DONE) return;
  kf_status status = sv_state_remove(r->server, ctx, r->rest, message, sizeof message);
  if (status == KF_OK)
    sv_answer(r, 204, NULL);
  else
    fail_change(r, status, message);
}
