/* text_prototypes.c - text prototypes, and zero-shot models that use them as class means.
 *
 * Text and image embeddings of the same thing differ by an offset that hardly depends on the thing:
 * the modality gap. Part of it lies in directions in which images hardly vary, and whitening
 * enlarges these. So a zero-shot model subtracts from each modality its own mean. In a model that
 * subtracts the image mean m from everything, a text t with text mean n has the class mean
 * t - n + m. */
#include "model/model.h"

#include <math.h>
#include <string.h>

struct kf_text {
  uint32_t n_classes, dim;
  kf_names names; /* n = 0: no names */
  float *rows;    /* [n_classes][dim] */
  kf_origin origin;
  uint64_t made_with; /* checksum of encoder, prompts and classes; 0: not known */
};

/* --- averaging ------------------------------------------------------------------------------- */

typedef struct averaging {
  const kf_text_options *options;
  uint32_t dim;
  bool one;        /* all rows belong to class 0 */
  double *sum;     /* [n_classes][dim] */
  uint64_t *count; /* [n_classes] */
} averaging;

static void add_row(averaging *a, uint64_t row, const float *x, int32_t label, double norm2) {
  uint32_t per_class = a->options->per_class;
  if (label == KF_LABEL_BAD) return;
  int64_t k = a->one ? 0 : per_class > 0 ? (int64_t)(row / per_class) : label;
  if (k < 0) return;
  double scale = a->options->unit_rows == KF_OFF ? 1 : 1 / sqrt(norm2);
  double *sum = a->sum + (uint64_t)k * a->dim;
  for (uint32_t i = 0; i < a->dim; i++) sum[i] += (double)x[i] * scale;
  a->count[k]++;
}

static kf_status add_batch(void *argument, const kf_batch *b, kf_err *err) {
  (void)err;
  averaging *a = argument;
  for (uint64_t i = 0; i < b->n; i++)
    add_row(a, b->first + i, b->rows + i * a->dim, b->labels[i], b->norm2[i]);
  return KF_OK;
}

/* On one thread, in the order of the rows: they are few, and sums must not depend on threads. */
static kf_status add_rows(kf_ctx *ctx, const kf_data *data, averaging *a) {
  return kf_each_batch(ctx, data,
                       &(kf_pass){.what = "text", .workers = 1, .work = add_batch, .argument = a});
}

/* "class 'cat'", or "class 7" without names. */
static void describe_class(const kf_names *names, uint32_t k, char *text, size_t size) {
  if (k < names->n)
    snprintf(text, size, "class '%s'", names->name[k]);
  else
    snprintf(text, size, "class %u", k);
}

static kf_status take_means(const averaging *a, const kf_kernels *kernels, kf_text *t,
                            kf_err *err) {
  char name[KF_WHERE_SIZE];
  for (uint32_t k = 0; k < t->n_classes; k++) {
    double *mean = a->sum + (uint64_t)k * t->dim, length;
    float *row = t->rows + (uint64_t)k * t->dim;
    describe_class(&t->names, k, name, sizeof name);
    if (a->count[k] == 0) return kf_fail(err, KF_ERR_DATA, "%s has no text embedding", name);
    for (uint32_t i = 0; i < t->dim; i++) mean[i] /= (double)a->count[k];
    if (a->options->unit_mean == KF_OFF) {
      for (uint32_t i = 0; i < t->dim; i++) row[i] = (float)mean[i];
      length = kernels->norm2(row, t->dim);
    } else {
      length = kf_unit_row(kernels, mean, t->dim, row);
    }
    if (!(length > 0 && isfinite(length)))
      return kf_fail(err, KF_ERR_DATA, "the text embeddings of %s have no mean direction", name);
  }
  return KF_OK;
}

static kf_status count_classes(const kf_data *data, const kf_text_options *o, const kf_names *names,
                               uint32_t *n_classes, kf_err *err) {
  *n_classes = data->n_classes;
  if (o->per_class == 0 && data->has_labels) return KF_OK;
  if (o->per_class == 0)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_PER_CLASS, "the text embeddings have no labels");
  uint64_t n = data->rows / o->per_class;
  if (n * o->per_class != data->rows)
    return kf_fail(err, KF_ERR_DATA,
                   "%llu text embeddings are not a multiple of %u, the number for each class",
                   (unsigned long long)data->rows, o->per_class);
  if (n > KF_MAX_CLASSES || (names->n > 0 && n != names->n))
    return kf_fail(err, KF_ERR_DATA,
                   "%llu text embeddings, %u for each class, make %llu classes; there are %u names",
                   (unsigned long long)data->rows, o->per_class, (unsigned long long)n, names->n);
  *n_classes = (uint32_t)n;
  return KF_OK;
}

static kf_status average(kf_ctx *ctx, const kf_data *data, const kf_text_options *o, kf_text *t) {
  averaging a = {.options = o, .dim = t->dim};
  kf_arena arena = {0};
  KF_TAKE_ZERO(&arena, a.sum, (uint64_t)t->n_classes * t->dim);
  KF_TAKE_ZERO(&arena, a.count, t->n_classes);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : add_rows(ctx, data, &a);
  if (status == KF_OK) status = take_means(&a, ctx->kernels, t, &ctx->err);
  kf_arena_free(&arena);
  return status;
}

static kf_status build(kf_ctx *ctx, const kf_data *data, const kf_text_options *o, kf_text *t) {
  kf_err *err = &ctx->err;
  if (o->names != NULL)
    KF_TRY(kf_names_take(o->names, (uint32_t)o->n_names, &t->names, err));
  else if (o->classes != NULL)
    KF_TRY(kf_names_read(o->classes, &t->names, err));
  else if (o->per_class == 0 || data->names.n > 0)
    KF_TRY(kf_names_clone(&data->names, &t->names, err));
  KF_TRY(count_classes(data, o, &t->names, &t->n_classes, err));
  t->dim = data->dim;
  t->origin = data->origin;
  t->made_with = data->made_with != 0 ? data->made_with : data->read_with;
  t->rows = kf_alloc((uint64_t)t->n_classes * t->dim, sizeof *t->rows);
  return t->rows != NULL ? average(ctx, data, o, t) : kf_fail_memory(err);
}

kf_status kf_text_new(kf_ctx *ctx, const kf_data *data, const kf_text_options *options,
                      kf_text **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, data != NULL && out != NULL);
  KF_OPTIONS(kf_text_options, o, options);
  if (o.n_names > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "kf_text_new: more than %u names", KF_MAX_CLASSES);
  if ((o.classes != NULL || o.names != NULL) && o.per_class == 0)
    return kf_fail(err, KF_ERR_ARG, "kf_text_new: names go with per_class; labels have their own");
  KF_TRY(kf_data_refuse_mapped(data, err));
  kf_text *t = kf_alloc_zero(1, sizeof *t);
  if (t == NULL) return kf_fail_memory(err);
  KF_HAND_OUT(build(ctx, data, &o, t), out, t, kf_text_free);
}

kf_status kf_text_mean(kf_ctx *ctx, const kf_data *data, double *mean) {
  KF_ENTER(ctx, data != NULL && mean != NULL);
  KF_TRY(kf_data_refuse_mapped(data, err));
  kf_text_options unit = {0};
  uint64_t n = 0;
  averaging a = {.options = &unit, .dim = data->dim, .one = true, .sum = mean, .count = &n};
  for (uint32_t i = 0; i < a.dim; i++) mean[i] = 0;
  KF_TRY(add_rows(ctx, data, &a));
  if (n == 0) return kf_fail(err, KF_ERR_DATA, "no text embedding is left to take the mean of");
  for (uint32_t i = 0; i < a.dim; i++) mean[i] /= (double)n;
  return KF_OK;
}

void kf_text_free(kf_text *t) {
  if (t == NULL) return;
  kf_names_clear(&t->names);
  kf_free(t->rows);
  kf_free(t);
}

uint32_t kf_text_classes(const kf_text *t) { return t->n_classes; }
uint32_t kf_text_dim(const kf_text *t) { return t->dim; }
const float *kf_text_rows(const kf_text *t) { return t->rows; }
uint64_t kf_text_made_with(const kf_text *t) { return t->made_with; }
const kf_origin *kf_text_origin(const kf_text *t) { return kf_origin_known(&t->origin); }
const kf_names *kf_text_names(const kf_text *t) { return &t->names; }

const char *kf_text_class_name(const kf_text *t, uint32_t k) {
  return k < t->names.n ? t->names.name[k] : NULL;
}

uint64_t kf_text_checksum(const kf_text *t) {
  const uint32_t head[] = {t->n_classes, t->dim, t->names.n};
  kf_checksum sum;
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, head, sizeof head);
  for (uint32_t k = 0; k < t->n_classes; k++)
    kf_checksum_add(&sum, t->rows + (uint64_t)k * t->dim, t->dim * sizeof *t->rows);
  for (uint32_t k = 0; k < t->names.n; k++)
    kf_checksum_add(&sum, t->names.name[k], strlen(t->names.name[k]) + 1);
  return kf_checksum_value(&sum);
}

kf_status kf_text_save(kf_ctx *ctx, const kf_text *t, const char *path) {
  KF_ENTER(ctx, t != NULL && path != NULL);
  int32_t *labels = kf_alloc(t->n_classes, sizeof *labels);
  if (labels == NULL) return kf_fail_memory(err);
  for (uint32_t k = 0; k < t->n_classes; k++) labels[k] = (int32_t)k;
  kf_data *data = NULL;
  kf_status status = kf_data_open_memory(ctx, t->rows, t->n_classes, t->dim, labels,
                                         t->names.n > 0 ? (const char *const *)t->names.name : NULL,
                                         t->n_classes, &data);
  if (status == KF_OK) {
    data->origin = t->origin;
    data->made_with = t->made_with;
    status = kf_data_save(ctx, data, KF_F32, path);
  }
  kf_data_free(data);
  kf_free(labels);
  return status;
}

/* --- the text of a model --------------------------------------------------------------------- */

static kf_status take_from_model(const kf_model *m, kf_text *t, kf_err *err) {
  uint64_t d = m->map.dim_in;
  const char **names = kf_alloc(m->n_classes, sizeof *names);
  t->rows = kf_alloc(m->n_classes * d, sizeof *t->rows);
  kf_status status = names != NULL && t->rows != NULL ? KF_OK : kf_fail_memory(err);
  for (uint32_t k = 0; status == KF_OK && k < m->n_classes; k++) {
    if (!m->text_given[k]) continue;
    if (m->names.n == 0 && t->n_classes < k)
      status =
          kf_fail(err, KF_ERR_DATA,
                  "class %u of the model has no text, later ones have, and there are no names to "
                  "tell them apart",
                  t->n_classes);
    else if (m->names.n > 0)
      names[t->n_classes] = m->names.name[k];
    memcpy(t->rows + t->n_classes++ * d, m->text + k * d, d * sizeof *t->rows);
  }
  if (status == KF_OK && m->names.n > 0)
    status = kf_names_copy(names, t->n_classes, &t->names, err);
  kf_free(names);
  return status;
}

kf_status kf_text_new_of_model(kf_ctx *ctx, const kf_model *model, kf_text **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && out != NULL);
  if (model->text == NULL) return kf_fail(err, KF_ERR_ARG, "the model has no text");
  kf_text *t = kf_alloc_zero(1, sizeof *t);
  if (t == NULL) return kf_fail_memory(err);
  t->dim = model->map.dim_in;
  t->origin = model->map.origin;
  KF_HAND_OUT(take_from_model(model, t, err), out, t, kf_text_free);
}

/* --- zero-shot ------------------------------------------------------------------------------- */

/* shift = m - n, the means of images and of text. It is zero on entry. */
static void find_shift(const kf_text *t, const double *image_mean, double *shift) {
  for (uint32_t k = 0; k < t->n_classes; k++)
    for (uint32_t i = 0; i < t->dim; i++) shift[i] += (double)t->rows[(uint64_t)k * t->dim + i];
  for (uint32_t i = 0; i < t->dim; i++) shift[i] = image_mean[i] - shift[i] / t->n_classes;
}

kf_status kf_text_check(const kf_text *t, uint32_t dim, const kf_origin *origin, kf_err *err) {
  KF_TRY(kf_origin_agree(&t->origin, origin, err));
  if (t->dim == dim) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "the text embeddings have %u columns, the images %u", t->dim,
                 dim);
}

/* Maps t + shift for each class. */
static void set_prototypes(kf_model *m, const kf_map *map, const kf_kernels *kernels,
                           const kf_text *t, const double *shift, double *x, double *mapped,
                           double *workspace) {
  uint64_t d = m->map.dim_in;
  for (uint32_t first = 0; first < t->n_classes; first += KF_MAP_ROWS) {
    uint32_t left = t->n_classes - first, n = left < KF_MAP_ROWS ? left : KF_MAP_ROWS;
    for (uint64_t k = 0; k < n; k++)
      for (uint64_t i = 0; i < d; i++)
        x[k * d + i] = (double)t->rows[(first + k) * d + i] + shift[i];
    kf_map_f64(map, kernels, x, n, workspace, mapped);
    kf_model_set_means(m, kernels, first, n, x, mapped);
  }
  for (uint32_t k = 0; k < t->n_classes; k++) m->counts[k] = 1;
}

static kf_status take_text(kf_ctx *ctx, const kf_text *text, kf_centre centre, kf_model *m) {
  uint64_t d = m->map.dim_in, l = m->map.dim_out;
  double *shift, *x, *mapped, *workspace;
  kf_arena arena = {0};
  kf_map turned = {0};
  kf_status status = KF_OK;
  if (m->map.method == KF_METHOD_SHRUNK) status = kf_map_for_text(ctx, &m->map, &turned, &arena);
  KF_TAKE_ZERO(&arena, shift, d);
  KF_TAKE(&arena, x, KF_MAP_ROWS * d);
  KF_TAKE(&arena, mapped, KF_MAP_ROWS * l);
  KF_TAKE(&arena, workspace, kf_map_workspace(&m->map));
  if (status == KF_OK && arena.failed) status = kf_fail_memory(&ctx->err);
  if (status == KF_OK) {
    if (centre == KF_CENTRE_MODALITY) find_shift(text, m->map.mean, shift);
    turned.centre = m->map.centre;
    set_prototypes(m, turned.transform != NULL ? &turned : &m->map, ctx->kernels, text, shift, x,
                   mapped, workspace);
  }
  kf_arena_free(&arena);
  return status;
}

static kf_status check_zero_shot(const kf_model *model, const kf_text *text, kf_centre centre,
                                 kf_err *err) {
  if ((unsigned)centre > KF_CENTRE_MODALITY)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d of text", (int)centre);
  if (model->map.normalized) return kf_text_check(text, model->map.dim_in, &model->map.origin, err);
  return kf_fail(err, KF_ERR_DATA,
                 "the model keeps the lengths of images, which text cannot be compared with; fit "
                 "one that normalises rows");
}

kf_status kf_zero_shot_new(kf_ctx *ctx, const kf_model *model, uint32_t dim, const kf_text *text,
                           kf_centre centre, kf_model **out) {
  kf_err *err = &ctx->err;
  KF_TRY(check_zero_shot(model, text, centre, err));
  if (centre == KF_CENTRE_DEFAULT) centre = KF_CENTRE_MODALITY;
  kf_model *m;
  KF_TRY(kf_model_create(model->map.dim_in, dim, text->n_classes, &text->names, &m, err));
  kf_status status = kf_model_copy_map(model, m, err);
  m->signal = NULL; /* signal and prior are for means of rows */
  m->prior = 0;
  m->map.centre = centre == KF_CENTRE_NONE ? KF_CENTRE_NONE : KF_CENTRE_MEAN;
  kf_model_name_text(m, text);
  if (status == KF_OK) status = kf_origin_join(&m->map.origin, &text->origin, err);
  if (status == KF_OK) status = take_text(ctx, text, centre, m);
  KF_HAND_OUT(status, out, m, kf_model_free);
}

kf_status kf_model_new_zero_shot(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                 kf_centre centre, kf_model **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && text != NULL && out != NULL);
  KF_TRY(check_zero_shot(model, text, centre, err));
  KF_TRY(kf_text_match(ctx, text, "the model", &model->names, model->n_classes));
  return kf_zero_shot_new(ctx, model, model->map.dim_out, text, centre, out);
}
