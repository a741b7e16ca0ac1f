/* text.c - classes by their names: text prototypes, and models that have them in place of means.
 *
 * Text and image embeddings of the same thing differ by an offset that hardly depends on the thing:
 * the modality gap. Part of it lies in directions in which images hardly vary, and whitening blows
 * these up. A zero-shot model therefore subtracts from each modality its own mean. In terms of a
 * model that subtracts the image mean m from everything, a text t with text mean n is the class mean
 * t - n + m. */
#include "model/model.h"

#include <math.h>
#include <string.h>

struct kf_text {
  uint32_t n_classes, dim;
  kf_names names; /* n = 0: no names */
  float *rows;    /* [n_classes][dim] */
};

/* --- averaging ------------------------------------------------------------------------------- */

typedef struct averaging {
  const kf_data *data;
  const kf_text_options *options;
  uint32_t n_classes;
  double *sum;     /* [n_classes][dim] */
  uint64_t *count; /* [n_classes] */
  float *rows;     /* [chunk][dim] */
  int32_t *labels; /* [chunk] */
  double *norm2;   /* [chunk] */
} averaging;

static void add_row(averaging *a, uint64_t row, const float *x, int32_t label, double norm2) {
  uint32_t dim = a->data->dim, per_class = a->options->per_class;
  if (label == KF_LABEL_BAD) return;
  int64_t k = per_class > 0 ? (int64_t)(row / per_class) : label;
  if (k < 0) return;
  double scale = a->options->unit_rows == KF_OFF ? 1 : 1 / sqrt(norm2);
  double *sum = a->sum + (uint64_t)k * dim;
  for (uint32_t i = 0; i < dim; i++) sum[i] += (double)x[i] * scale;
  a->count[k]++;
}

/* In the order of the rows: these are few, and the sums must not depend on threads. */
static kf_status add_rows(kf_ctx *ctx, averaging *a) {
  const kf_data *data = a->data;
  uint64_t chunk = kf_data_chunk(data->dim);
  a->sum = kf_alloc_zero((uint64_t)a->n_classes * data->dim, sizeof *a->sum);
  a->count = kf_alloc_zero(a->n_classes, sizeof *a->count);
  a->rows = kf_alloc(chunk * data->dim, sizeof *a->rows);
  a->labels = kf_alloc(chunk, sizeof *a->labels);
  a->norm2 = kf_alloc(chunk, sizeof *a->norm2);
  if (!(a->sum && a->count && a->rows && a->labels && a->norm2)) return kf_fail_memory(&ctx->err);
  for (uint64_t first = 0; first < data->rows; first += chunk) {
    uint64_t n = data->rows - first < chunk ? data->rows - first : chunk;
    KF_TRY(kf_progress(ctx, "text", first, data->rows));
    KF_TRY(kf_data_fetch(data, ctx->kernels, first, n, a->rows, a->labels, a->norm2, &ctx->err));
    for (uint64_t i = 0; i < n; i++)
      add_row(a, first + i, a->rows + i * data->dim, a->labels[i], a->norm2[i]);
  }
  return kf_progress(ctx, "text", data->rows, data->rows);
}

/* "class 'cat'", or "class 7" where there are no names. */
static void call_class(const kf_names *names, uint32_t k, char *text, size_t size) {
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
    call_class(&t->names, k, name, sizeof name);
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
  if (o->per_class == 0)
    return data->has_labels
               ? KF_OK
               : kf_fail(err, KF_ERR_DATA,
                         "the text embeddings have no labels; say how many belong to each class "
                         "(--per-class)");
  uint64_t n = data->rows / o->per_class;
  if (n * o->per_class != data->rows)
    return kf_fail(err, KF_ERR_DATA, "%llu text embeddings cannot be %u for each class",
                   (unsigned long long)data->rows, o->per_class);
  if (n > KF_MAX_CLASSES || (names->n > 0 && n != names->n))
    return kf_fail(err, KF_ERR_DATA,
                   "%llu text embeddings, %u for each class, make %llu classes, and there are %u "
                   "names",
                   (unsigned long long)data->rows, o->per_class, (unsigned long long)n, names->n);
  *n_classes = (uint32_t)n;
  return KF_OK;
}

static kf_status build(kf_ctx *ctx, const kf_data *data, const kf_text_options *o, kf_text *t) {
  kf_err *err = &ctx->err;
  if (o->names != NULL)
    KF_TRY(kf_names_take(o->names, (uint32_t)o->n_names, &t->names, err));
  else if (o->classes != NULL)
    KF_TRY(kf_names_read(o->classes, &t->names, err));
  else if (o->per_class == 0 || data->names.n > 0)
    KF_TRY(kf_names_copy((const char *const *)data->names.name, data->names.n, &t->names, err));
  KF_TRY(count_classes(data, o, &t->names, &t->n_classes, err));
  t->dim = data->dim;
  t->rows = kf_alloc((uint64_t)t->n_classes * t->dim, sizeof *t->rows);
  if (t->rows == NULL) return kf_fail_memory(err);
  averaging a = {.data = data, .options = o, .n_classes = t->n_classes};
  kf_status status = add_rows(ctx, &a);
  if (status == KF_OK) status = take_means(&a, ctx->kernels, t, err);
  kf_free(a.sum);
  kf_free(a.count);
  kf_free(a.rows);
  kf_free(a.labels);
  kf_free(a.norm2);
  return status;
}

kf_status kf_text_new(kf_ctx *ctx, const kf_data *data, const kf_text_options *options,
                      kf_text **out) {
  KF_ENTER(ctx, data != NULL && out != NULL);
  kf_text_options o = options != NULL ? *options : (kf_text_options){0};
  if (o.n_names > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "kf_text_new: more than %u names", KF_MAX_CLASSES);
  if ((o.classes != NULL || o.names != NULL) && o.per_class == 0)
    return kf_fail(err, KF_ERR_ARG, "kf_text_new: names are for per_class; labels have their own");
  KF_TRY(kf_data_refuse_mapped(data, err));
  kf_text *t = kf_alloc_zero(1, sizeof *t);
  if (t == NULL) return kf_fail_memory(err);
  kf_status status = build(ctx, data, &o, t);
  if (status == KF_OK)
    *out = t;
  else
    kf_text_free(t);
  return status;
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
const kf_names *kf_text_names(const kf_text *t) { return &t->names; }

const char *kf_text_class_name(const kf_text *t, uint32_t k) {
  return k < t->names.n ? t->names.name[k] : NULL;
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
  if (status == KF_OK) status = kf_data_save(ctx, data, KF_F32, path);
  kf_data_free(data);
  kf_free(labels);
  return status;
}

/* --- of a model ------------------------------------------------------------------------------ */

static kf_status take_from_model(const kf_model *m, kf_text *t, kf_err *err) {
  const char **names = kf_alloc(m->n_classes, sizeof *names);
  t->rows = kf_alloc((uint64_t)m->n_classes * m->dim_in, sizeof *t->rows);
  kf_status status = names != NULL && t->rows != NULL ? KF_OK : kf_fail_memory(err);
  for (uint32_t k = 0; status == KF_OK && k < m->n_classes; k++) {
    if (!m->text_given[k]) continue;
    if (m->names.n == 0 && t->n_classes < k)
      status = kf_fail(err, KF_ERR_DATA,
                       "class %u of the model has no text, others behind it have, and there are no "
                       "names to tell them apart",
                       t->n_classes);
    else if (m->names.n > 0)
      names[t->n_classes] = m->names.name[k];
    memcpy(t->rows + (uint64_t)t->n_classes++ * m->dim_in, m->text + (uint64_t)k * m->dim_in,
           m->dim_in * sizeof *t->rows);
  }
  if (status == KF_OK && m->names.n > 0)
    status = kf_names_copy(names, t->n_classes, &t->names, err);
  kf_free(names);
  return status;
}

kf_status kf_text_new_of_model(kf_ctx *ctx, const kf_model *model, kf_text **out) {
  KF_ENTER(ctx, model != NULL && out != NULL);
  if (model->text == NULL) return kf_fail(err, KF_ERR_ARG, "the model knows no text");
  kf_text *t = kf_alloc_zero(1, sizeof *t);
  if (t == NULL) return kf_fail_memory(err);
  t->dim = model->dim_in;
  kf_status status = take_from_model(model, t, err);
  if (status == KF_OK)
    *out = t;
  else
    kf_text_free(t);
  return status;
}

/* --- zero-shot ------------------------------------------------------------------------------- */

void kf_text_mean(const kf_text *t, double *mean) {
  for (uint32_t i = 0; i < t->dim; i++) mean[i] = 0;
  for (uint32_t k = 0; k < t->n_classes; k++)
    for (uint32_t i = 0; i < t->dim; i++) mean[i] += (double)t->rows[(uint64_t)k * t->dim + i];
  for (uint32_t i = 0; i < t->dim; i++) mean[i] /= t->n_classes;
}

kf_status kf_text_check(const kf_text *t, uint32_t dim, kf_err *err) {
  if (t->dim == dim) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "the text embeddings have %u columns, the images %u", t->dim,
                 dim);
}

/* Prototypes are t + shift for each class, mapped. */
static kf_status set_prototypes(kf_ctx *ctx, kf_model *m, const kf_text *t, const double *shift) {
  uint64_t d = m->dim_in, l = m->dim_out;
  double *x = kf_alloc(KF_MAP_ROWS * (d + l) + kf_map_scratch(m), sizeof *x);
  if (x == NULL) return kf_fail_memory(&ctx->err);
  double *mapped = x + KF_MAP_ROWS * d, *scratch = mapped + KF_MAP_ROWS * l;
  for (uint32_t first = 0; first < t->n_classes; first += KF_MAP_ROWS) {
    uint32_t left = t->n_classes - first, n = left < KF_MAP_ROWS ? left : KF_MAP_ROWS;
    for (uint64_t k = 0; k < n; k++)
      for (uint64_t i = 0; i < d; i++) {
        double value = (double)t->rows[(first + k) * d + i] + shift[i];
        x[k * d + i] = value;
        m->class_means[(first + k) * d + i] = (float)value;
      }
    kf_map_f64(m, ctx->kernels, x, n, scratch, mapped);
    for (uint64_t k = 0; k < n; k++) {
      m->counts[first + k] = 1;
      m->lengths[first + k] =
          kf_unit_row(ctx->kernels, mapped + k * l, m->dim_out, m->prototypes + (first + k) * l);
    }
  }
  kf_free(x);
  return KF_OK;
}

kf_status kf_model_new_zero_shot(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                 kf_centre centre, kf_model **out) {
  KF_ENTER(ctx, model != NULL && text != NULL && out != NULL);
  if ((unsigned)centre > KF_CENTRE_MODALITY)
    return kf_fail(err, KF_ERR_ARG, "kf_model_new_zero_shot: the centre is none of its choices");
  if (centre == KF_CENTRE_DEFAULT) centre = KF_CENTRE_MODALITY;
  KF_TRY(kf_text_check(text, model->dim_in, err));
  if (!model->normalized)
    return kf_fail(err, KF_ERR_DATA,
                   "the model takes images with the lengths they have (--no-normalize), which "
                   "those of text cannot be compared with; fit it on unit rows for text");
  kf_model *m;
  KF_TRY(kf_model_create(model->dim_in, model->dim_out, text->n_classes, &text->names, &m, err));
  kf_model_copy_map(model, m, model->dim_out);
  m->centre = centre == KF_CENTRE_NONE ? KF_CENTRE_NONE : KF_CENTRE_MEAN;
  double *shift = kf_alloc_zero(model->dim_in, sizeof *shift);
  kf_status status = shift != NULL ? KF_OK : kf_fail_memory(err);
  if (status == KF_OK && centre == KF_CENTRE_MODALITY) {
    kf_text_mean(text, shift);
    for (uint32_t i = 0; i < model->dim_in; i++) shift[i] = model->mean[i] - shift[i];
  }
  if (status == KF_OK) status = set_prototypes(ctx, m, text, shift);
  kf_free(shift);
  if (status == KF_OK)
    *out = m;
  else
    kf_model_free(m);
  return status;
}

/* --- matching ---------------------------------------------------------------------------------- */

enum { SHOWN = 3, SHOWN_BYTES = 200 };

/* Names on one side of a match. */
typedef struct name_list {
  const char *of; /* "training data" */
  const kf_names *names;
} name_list;

/* Logs how many names the other side lacks, and the first few. */
static kf_status log_missing(kf_ctx *ctx, const name_list *in, const name_list *other,
                             const char *consequence, uint32_t *missing) {
  kf_dict *dict;
  KF_TRY(kf_dict_new_from_names(other->names, other->of, &dict, &ctx->err));
  char few[SHOWN_BYTES] = "";
  uint32_t n = 0, all = in->names->n;
  for (uint32_t k = 0; k < all; k++) {
    const char *name = in->names->name[k];
    if (kf_dict_find(dict, name, strlen(name)) >= 0) continue;
    size_t used = strlen(few);
    if (n < SHOWN) snprintf(few + used, sizeof few - used, "%s'%.60s'", n > 0 ? ", " : "", name);
    n++;
  }
  kf_dict_free(dict);
  if (n > 0 && n < all)
    kf_log(ctx, "%u of the %u classes of the %s %s not in the %s (%s%s)%s", n, all, in->of,
           n == 1 ? "is" : "are", other->of, few, n > SHOWN ? ", ..." : "", consequence);
  *missing = n;
  return KF_OK;
}

kf_status kf_text_match(kf_ctx *ctx, const kf_text *text, const char *of, const kf_names *names,
                        uint32_t n) {
  kf_err *err = &ctx->err;
  name_list own = {.of = of, .names = names}, by_text = {.of = "text", .names = &text->names};
  if (names->n > 0 && text->names.n > 0) {
    uint32_t without, unused;
    KF_TRY(log_missing(ctx, &own, &by_text, "; text alone cannot recognise them", &without));
    if (without == names->n)
      return kf_fail(err, KF_ERR_DATA,
                     "no class of the text ('%.60s', ...) is a class of the %s ('%.60s', ...)",
                     text->names.name[0], of, names->name[0]);
    return log_missing(ctx, &by_text, &own, "; they take part by name", &unused);
  }
  if (names->n > 0 || text->names.n > 0)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                        "the %s names its classes and the %s numbers them; give both names",
                        names->n > 0 ? of : "text", names->n > 0 ? "text" : of);
  if (n == text->n_classes) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "the text has %u classes and the %s %u, without names to match them by",
                 text->n_classes, of, n);
}
