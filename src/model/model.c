/* model.c - the life of a model, and one more class without refitting. */
#include "model/model.h"

#include <math.h>
#include <string.h>

kf_status kf_model_create(uint32_t dim_in, uint32_t dim_out, uint32_t n_classes,
                          const kf_names *names, kf_model **out, kf_err *err) {
  kf_model *m = kf_alloc_zero(1, sizeof *m);
  if (m == NULL) return kf_fail_memory(err);
  uint64_t d = dim_in, l = dim_out, k = n_classes;
  m->dim_in = dim_in;
  m->dim_out = dim_out;
  m->n_classes = n_classes;
  m->transform = kf_alloc_zero(l * d, sizeof *m->transform);
  m->transposed = kf_alloc_zero(l * d, sizeof *m->transposed);
  m->mean = kf_alloc_zero(d, sizeof *m->mean);
  m->within = kf_alloc_zero(d, sizeof *m->within);
  m->between = kf_alloc_zero(d, sizeof *m->between);
  m->counts = kf_alloc_zero(k, sizeof *m->counts);
  m->class_means = kf_alloc_zero(k * d, sizeof *m->class_means);
  m->prototypes = kf_alloc_zero(k * l, sizeof *m->prototypes);
  m->lengths = kf_alloc_zero(k, sizeof *m->lengths);
  bool ok = m->transform && m->transposed && m->mean && m->within && m->between && m->counts &&
            m->class_means && m->prototypes && m->lengths;
  kf_status status = ok ? kf_names_copy((const char *const *)names->name, names->n, &m->names, err)
                        : kf_fail_memory(err);
  if (status != KF_OK) {
    kf_model_free(m);
    return status;
  }
  *out = m;
  return KF_OK;
}

void kf_model_free(kf_model *m) {
  if (m == NULL) return;
  kf_names_clear(&m->names);
  kf_free(m->transform);
  kf_free(m->transposed);
  kf_free(m->mean);
  kf_free(m->within);
  kf_free(m->between);
  kf_free(m->counts);
  kf_free(m->class_means);
  kf_free(m->prototypes);
  kf_free(m->lengths);
  kf_free(m->text);
  kf_free(m->text_given);
  kf_free(m->fused);
  kf_free(m->evidence);
  kf_free(m);
}

kf_status kf_model_make_text(kf_model *m, kf_err *err) {
  uint64_t d = m->dim_in, l = m->dim_out, k = m->n_classes;
  m->text = kf_alloc_zero(k * d, sizeof *m->text);
  m->text_given = kf_alloc_zero(k, 1);
  m->fused = kf_alloc_zero(k * l, sizeof *m->fused);
  m->evidence = kf_alloc_zero(2 * k, sizeof *m->evidence);
  bool all = m->text && m->text_given && m->fused && m->evidence;
  return all ? KF_OK : kf_fail_memory(err);
}

void kf_model_copy_text(const kf_model *from, kf_model *to) {
  uint64_t d = from->dim_in, l = from->dim_out, k = from->n_classes;
  memcpy(to->text, from->text, k * d * sizeof *to->text);
  memcpy(to->text_given, from->text_given, k);
  memcpy(to->fused, from->fused, k * l * sizeof *to->fused);
  to->alpha = from->alpha;
}

void kf_model_weigh(kf_model *m) {
  for (uint64_t k = 0; k < m->n_classes; k++) {
    m->evidence[m->n_classes + k] = m->text_given[k] ? 1 : 0;
    m->evidence[k] = m->counts[k] + m->evidence[m->n_classes + k];
  }
}

const int64_t *kf_model_evidence(const kf_model *m, kf_part part) {
  if (m->text == NULL || part == KF_PART_IMAGES) return m->counts;
  return part == KF_PART_TEXT ? m->evidence + m->n_classes : m->evidence;
}

void kf_model_finish(kf_model *m) {
  for (uint64_t l = 0; l < m->dim_out; l++)
    for (uint64_t d = 0; d < m->dim_in; d++)
      m->transposed[d * m->dim_out + l] = m->transform[l * m->dim_in + d];
}

kf_status kf_model_check_data(const kf_model *model, const kf_data *data, kf_err *err) {
  KF_TRY(kf_data_refuse_mapped(data, err));
  if (data->dim == model->dim_in) return KF_OK;
  char where[KF_WHERE_SIZE];
  data->where(data, 0, where, sizeof where);
  return kf_fail(err, KF_ERR_DATA, "%s: has %u columns, the model takes %u", where, data->dim,
                 model->dim_in);
}

/* --- one more class -------------------------------------------------------------------------- */

/* The names of the model with one more; classes without names are called by their numbers. */
static kf_status names_with(const kf_model *model, const char *name, kf_names *out, kf_err *err) {
  uint32_t n = model->n_classes + 1;
  const char **list = kf_alloc(n, sizeof *list);
  char *numbers = kf_alloc(n, 12);
  kf_status status = list == NULL || numbers == NULL ? kf_fail_memory(err) : KF_OK;
  for (uint32_t k = 0; status == KF_OK && k + 1 < n; k++) {
    snprintf(numbers + (size_t)k * 12, 12, "%u", k);
    list[k] = model->names.n > 0 ? model->names.name[k] : numbers + (size_t)k * 12;
    if (strcmp(list[k], name) == 0)
      status = kf_fail(err, KF_ERR_ARG, "class '%s' is already in the model", name);
  }
  if (status == KF_OK) {
    list[n - 1] = name;
    status = kf_names_take(list, n, out, err);
  }
  kf_free(list);
  kf_free(numbers);
  return status;
}

/* The exact sum of all rows of a data set, as statistics with a single class. */
static kf_status sum_of_samples(kf_ctx *ctx, const kf_model *model, const kf_data *samples,
                                kf_stats **out) {
  kf_err *err = &ctx->err;
  int exponent = KF_FIXED_BITS;
  if (!model->normalized) KF_TRY(kf_find_exponent(ctx, samples, true, &exponent));
  kf_stats *s;
  KF_TRY(kf_stats_create(samples->dim, 1, NULL, model->normalized, exponent, &s, err));
  int32_t *labels = kf_alloc_zero(samples->rows, sizeof *labels);
  kf_status status = labels == NULL ? kf_fail_memory(err)
                                    : kf_stats_accumulate(ctx, s, samples, labels, "add-class");
  kf_free(labels);
  if (status == KF_OK && s->rows == 0)
    status = kf_fail(err, KF_ERR_DATA, "no row is left to make a class of");
  if (status != KF_OK) {
    kf_stats_free(s);
    return status;
  }
  *out = s;
  return KF_OK;
}

void kf_model_copy(const kf_model *from, kf_model *to) {
  uint64_t d = from->dim_in, l = from->dim_out, k = from->n_classes;
  kf_model_copy_map(from, to, from->dim_out);
  memcpy(to->counts, from->counts, k * sizeof *to->counts);
  memcpy(to->class_means, from->class_means, k * d * sizeof *to->class_means);
  memcpy(to->prototypes, from->prototypes, k * l * sizeof *to->prototypes);
  memcpy(to->lengths, from->lengths, k * sizeof *to->lengths);
}

kf_status kf_model_new_with_class(kf_ctx *ctx, const kf_model *model, const char *name,
                                  const kf_data *samples, kf_model **out) {
  KF_ENTER(ctx, model != NULL && name != NULL && samples != NULL && out != NULL);
  KF_TRY(kf_model_check_data(model, samples, err));
  if (model->n_classes == KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "the model has %u classes already, the most there can be",
                   KF_MAX_CLASSES);
  kf_names names = {0};
  kf_stats *sum = NULL;
  kf_model *larger = NULL;
  kf_status status = names_with(model, name, &names, err);
  if (status == KF_OK) status = sum_of_samples(ctx, model, samples, &sum);
  if (status == KF_OK)
    status =
        kf_model_create(model->dim_in, model->dim_out, model->n_classes + 1, &names, &larger, err);
  if (status == KF_OK) {
    kf_model_copy(model, larger);
    status = kf_model_set_classes(larger, ctx->kernels, model->n_classes, 1, sum, 0, err);
  }
  if (status == KF_OK && model->text != NULL) {
    uint64_t l = model->dim_out, k = model->n_classes;
    status = kf_model_make_text(larger, err);
    if (status == KF_OK) {
      kf_model_copy_text(model, larger);
      memcpy(larger->fused + k * l, larger->prototypes + k * l, l * sizeof *larger->fused);
      status = kf_model_complete(ctx, larger, (int64_t)k);
    }
  }
  kf_names_clear(&names);
  kf_stats_free(sum);
  if (status == KF_OK)
    *out = larger;
  else
    kf_model_free(larger);
  return status;
}

void kf_model_copy_map(const kf_model *from, kf_model *to, uint32_t dim) {
  to->normalized = from->normalized;
  to->centre = from->centre;
  to->lambda = from->lambda;
  to->mean_eigenvalue = from->mean_eigenvalue;
  to->rank = from->rank;
  to->rows = from->rows;
  memcpy(to->transform, from->transform, (uint64_t)dim * to->dim_in * sizeof *to->transform);
  memcpy(to->mean, from->mean, to->dim_in * sizeof *to->mean);
  memcpy(to->within, from->within, to->dim_in * sizeof *to->within);
  memcpy(to->between, from->between, to->dim_in * sizeof *to->between);
  kf_model_finish(to);
}

kf_status kf_model_new_shorter(const kf_model *model, uint32_t dim, kf_model **out, kf_err *err) {
  KF_TRY(kf_model_create(model->dim_in, dim, 0, &(kf_names){0}, out, err));
  kf_model_copy_map(model, *out, dim);
  return KF_OK;
}

/* --- looking --------------------------------------------------------------------------------- */

uint32_t kf_model_dim_in(const kf_model *m) { return m->dim_in; }
uint32_t kf_model_dim_out(const kf_model *m) { return m->dim_out; }
uint32_t kf_model_classes(const kf_model *m) { return m->n_classes; }
int64_t kf_model_count(const kf_model *m, uint32_t k) {
  return k < m->n_classes ? m->counts[k] : 0;
}
int kf_model_normalized(const kf_model *m) { return m->normalized; }
kf_centre kf_model_centre(const kf_model *m) { return m->centre; }
double kf_model_lambda(const kf_model *m) { return m->lambda; }
double kf_model_mean_eigenvalue(const kf_model *m) { return m->mean_eigenvalue; }
const double *kf_model_transform_matrix(const kf_model *m) { return m->transform; }
const double *kf_model_mean(const kf_model *m) { return m->mean; }
const double *kf_model_within_eigenvalues(const kf_model *m) { return m->within; }
const double *kf_model_between_eigenvalues(const kf_model *m) { return m->between; }
const float *kf_model_class_means(const kf_model *m) { return m->class_means; }
const float *kf_model_prototypes(const kf_model *m) { return m->prototypes; }
const double *kf_model_prototype_lengths(const kf_model *m) { return m->lengths; }

int kf_model_fused(const kf_model *m) { return m->text != NULL; }
double kf_model_alpha(const kf_model *m) { return m->alpha; }
int kf_model_has_text(const kf_model *m, uint32_t k) {
  return m->text != NULL && k < m->n_classes && m->text_given[k];
}

uint32_t kf_model_answers(const kf_model *m, kf_part part) {
  if (part == KF_PART_DEFAULT && m->text == NULL) part = KF_PART_IMAGES;
  const int64_t *evidence = kf_model_evidence(m, part);
  uint32_t n = 0;
  for (uint32_t k = 0; k < m->n_classes; k++) n += evidence[k] > 0;
  return n;
}

const char *kf_model_class_name(const kf_model *m, uint32_t k) {
  return k < m->names.n ? m->names.name[k] : NULL;
}
