/* model.c - makes, copies and frees models, sets their classes, and adds a class without
 * refitting. */
#include "model/model.h"

#include <math.h>
#include <string.h>

kf_status kf_model_create(uint32_t dim_in, uint32_t dim_out, uint32_t n_classes,
                          const kf_names *names, kf_model **out, kf_err *err) {
  kf_model *m = kf_alloc_zero(1, sizeof *m);
  if (m == NULL) return kf_fail_memory(err);
  uint64_t d = dim_in, l = dim_out, k = n_classes;
  kf_arena *arena = &m->arena;
  m->n_classes = n_classes;
  kf_map_make(&m->map, dim_in, dim_out, arena);
  KF_TAKE_ZERO(arena, m->within, d);
  KF_TAKE_ZERO(arena, m->between, d);
  KF_TAKE_ZERO(arena, m->counts, k);
  KF_TAKE_ZERO(arena, m->class_means, k * d);
  KF_TAKE_ZERO(arena, m->prototypes, k * l);
  KF_TAKE_ZERO(arena, m->lengths, k);
  KF_TAKE_ZERO(arena, m->on_devices, 2);
  for (int i = 0; i < 2 && m->on_devices != NULL; i++) kf_slots_owner_make(&m->on_devices[i]);
  KF_HAND_OUT(arena->failed ? kf_fail_memory(err) : kf_names_clone(names, &m->names, err), out, m,
              kf_model_free);
}

void kf_model_free(kf_model *m) {
  if (m == NULL) return;
  for (int i = 0; i < 2 && m->on_devices != NULL; i++) kf_slots_owner_clear(&m->on_devices[i]);
  kf_names_clear(&m->names);
  kf_arena_free(&m->arena);
  kf_free(m);
}

kf_status kf_model_make_signal(kf_model *m, kf_err *err) {
  return KF_TAKE_ZERO(&m->arena, m->signal, m->map.dim_in) != NULL ? KF_OK : kf_fail_memory(err);
}

kf_status kf_model_copy_map(const kf_model *from, kf_model *to, kf_err *err) {
  to->mean_eigenvalue = from->mean_eigenvalue;
  to->dims_within = from->dims_within;
  to->rows = from->rows;
  to->prior = from->prior;
  memcpy(to->within, from->within, to->map.dim_in * sizeof *to->within);
  memcpy(to->between, from->between, to->map.dim_in * sizeof *to->between);
  kf_map_copy(&from->map, &to->map);
  if (from->signal == NULL) return KF_OK;
  KF_TRY(kf_model_make_signal(to, err));
  memcpy(to->signal, from->signal, to->map.dim_in * sizeof *to->signal);
  return KF_OK;
}

kf_status kf_model_copy(const kf_model *from, kf_model *to, kf_err *err) {
  uint64_t d = from->map.dim_in, l = from->map.dim_out, k = from->n_classes;
  KF_TRY(kf_model_copy_map(from, to, err));
  memcpy(to->counts, from->counts, k * sizeof *to->counts);
  memcpy(to->class_means, from->class_means, k * d * sizeof *to->class_means);
  memcpy(to->prototypes, from->prototypes, k * l * sizeof *to->prototypes);
  memcpy(to->lengths, from->lengths, k * sizeof *to->lengths);
  to->temperature = from->temperature;
  to->text_from = from->text_from;
  to->text_made_with = from->text_made_with;
  to->reject = from->reject;
  to->reject_share = from->reject_share;
  return KF_OK;
}

/* --- text ------------------------------------------------------------------------------------ */

kf_status kf_model_make_text(kf_model *m, kf_err *err) {
  uint64_t d = m->map.dim_in, l = m->map.dim_out, k = m->n_classes;
  KF_TAKE_ZERO(&m->arena, m->text, k * d);
  KF_TAKE_ZERO(&m->arena, m->text_given, k);
  KF_TAKE_ZERO(&m->arena, m->fused, k * l);
  KF_TAKE_ZERO(&m->arena, m->evidence, 2 * k);
  return m->arena.failed ? kf_fail_memory(err) : KF_OK;
}

/* The checksum of two texts is that of their checksums, as with statistics. */
static uint64_t join_checksums(uint64_t before, uint64_t added) {
  const uint64_t two[] = {before, added};
  kf_checksum sum;
  if (before == 0) return added;
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, two, sizeof two);
  return kf_checksum_value(&sum);
}

void kf_model_name_text(kf_model *m, const kf_text *text) {
  uint64_t made_with = kf_text_made_with(text);
  bool known = made_with != 0 && (m->text_from == 0 || m->text_made_with != 0);
  m->text_made_with = known ? join_checksums(m->text_made_with, made_with) : 0;
  m->text_from = join_checksums(m->text_from, kf_text_checksum(text));
}

void kf_model_copy_text(const kf_model *from, kf_model *to) {
  uint64_t d = from->map.dim_in, l = from->map.dim_out, k = from->n_classes;
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

/* --- classes --------------------------------------------------------------------------------- */

void kf_model_set_means(kf_model *m, const kf_kernels *kernels, uint32_t k, uint32_t n,
                        const double *means, const double *mapped) {
  uint64_t d = m->map.dim_in, l = m->map.dim_out;
  for (uint64_t t = 0; t < n; t++) {
    float *mean = m->class_means + (k + t) * d;
    for (uint64_t i = 0; i < d; i++) mean[i] = (float)means[t * d + i];
    m->lengths[k + t] =
        kf_unit_row(kernels, mapped + t * l, m->map.dim_out, m->prototypes + (k + t) * l);
  }
}

void kf_shrink_means(const kf_model *m, const int64_t *counts, uint32_t n, double *mapped) {
  uint64_t l = m->map.dim_out;
  for (uint64_t t = 0; m->signal != NULL && t < n; t++)
    for (uint64_t i = 0; i < l; i++) {
      double share = (double)counts[t] * m->signal[i];
      if (isfinite(share)) mapped[t * l + i] *= share / (1 + share); /* otherwise the share is 1 */
    }
}

double kf_largest_count(const int64_t *counts, uint32_t n) {
  int64_t largest = 0;
  for (uint32_t k = 0; k < n; k++)
    if (counts[k] > largest) largest = counts[k];
  return (double)largest;
}

kf_status kf_model_set_classes(kf_model *m, const kf_kernels *kernels, uint32_t k, uint32_t n,
                               const kf_stats *stats, uint32_t from, kf_err *err) {
  uint64_t d = m->map.dim_in, l = m->map.dim_out;
  double *means = kf_alloc(n * (d + l) + kf_map_workspace(&m->map), sizeof *means);
  if (means == NULL) return kf_fail_memory(err);
  double *mapped = means + n * d, *workspace = mapped + n * l;
  kf_map_class_means(&m->map, kernels, stats, from, n, workspace, means, mapped);
  kf_shrink_means(m, stats->counts + from, n, mapped);
  kf_model_set_means(m, kernels, k, n, means, mapped);
  memcpy(m->counts + k, stats->counts + from, n * sizeof *m->counts);
  kf_free(means);
  return KF_OK;
}

/* --- one more class -------------------------------------------------------------------------- */

/* The names of the model and another one. Classes without names are named by their numbers. */
static kf_status names_with(const kf_model *model, const char *name, kf_names *out, kf_err *err) {
  enum { DIGITS = 12 };
  uint32_t n = model->n_classes + 1;
  kf_arena arena = {0};
  const char **list;
  char *numbers;
  KF_TAKE(&arena, list, n);
  KF_TAKE(&arena, numbers, (uint64_t)n * DIGITS);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint32_t k = 0; status == KF_OK && k + 1 < n; k++) {
    char *number = numbers + (size_t)k * DIGITS;
    snprintf(number, DIGITS, "%u", k);
    list[k] = model->names.n > 0 ? model->names.name[k] : number;
    if (strcmp(list[k], name) == 0)
      status = kf_fail(err, KF_ERR_ARG, "class '%s' is already in the model", name);
  }
  if (status == KF_OK) {
    list[n - 1] = name;
    status = kf_names_take(list, n, out, err);
  }
  kf_arena_free(&arena);
  return status;
}

/* The exact sum of all rows of a data set, as statistics of one class. */
static kf_status sum_of_samples(kf_ctx *ctx, const kf_map *map, const kf_data *samples,
                                kf_stats **out) {
  kf_err *err = &ctx->err;
  int exponent = KF_FIXED_BITS;
  if (!map->normalized) KF_TRY(kf_find_exponent(ctx, samples, true, &exponent));
  kf_stats *s;
  KF_TRY(kf_stats_create(samples->dim, 1, NULL, map->normalized, exponent, &s, err));
  s->origin = samples->origin;
  int32_t *labels = kf_alloc_zero(samples->rows, sizeof *labels);
  kf_status status = labels == NULL ? kf_fail_memory(err)
                                    : kf_stats_accumulate(ctx, s, samples, labels, "add-class");
  kf_free(labels);
  if (status == KF_OK && s->rows == 0)
    status = kf_fail(err, KF_ERR_DATA, "no row is left to make the class from");
  KF_HAND_OUT(status, out, s, kf_stats_free);
}

/* Priors are relative to the largest class. If the new class is larger, the scores of all others
 * change by the same amount, and so does the threshold. */
static void move_threshold(const kf_model *model, kf_model *larger) {
  double before = kf_largest_count(model->counts, model->n_classes);
  double after = kf_largest_count(larger->counts, larger->n_classes);
  double more = kf_prior2(model->prior, after, before);
  if (!(larger->reject_share > 0) || model->text != NULL) return;
  if (model->map.normalized)
    larger->reject -= more;
  else
    larger->reject = sqrt(larger->reject * larger->reject + more);
}

static kf_status add_class(kf_ctx *ctx, const kf_model *model, const kf_stats *sum,
                           kf_model *larger) {
  uint64_t l = model->map.dim_out, k = model->n_classes;
  KF_TRY(kf_model_copy(model, larger, &ctx->err));
  KF_TRY(kf_origin_join(&larger->map.origin, &sum->origin, &ctx->err));
  KF_TRY(kf_model_set_classes(larger, ctx->kernels, model->n_classes, 1, sum, 0, &ctx->err));
  move_threshold(model, larger);
  if (model->text == NULL) return KF_OK;
  KF_TRY(kf_model_make_text(larger, &ctx->err));
  kf_model_copy_text(model, larger);
  memcpy(larger->fused + k * l, larger->prototypes + k * l, l * sizeof *larger->fused);
  return kf_model_complete(ctx, larger, (int64_t)k);
}

kf_status kf_model_new_with_class(kf_ctx *ctx, const kf_model *model, const char *name,
                                  const kf_data *samples, kf_model **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && name != NULL && samples != NULL && out != NULL);
  const kf_map *map = &model->map;
  KF_TRY(kf_map_check_data(map, samples, err));
  if (model->n_classes == KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "the model has %u classes already, the most there can be",
                   KF_MAX_CLASSES);
  kf_names names = {0};
  kf_stats *sum = NULL;
  kf_model *larger = NULL;
  kf_status status = names_with(model, name, &names, err);
  if (status == KF_OK) status = sum_of_samples(ctx, map, samples, &sum);
  if (status == KF_OK)
    status = kf_model_create(map->dim_in, map->dim_out, model->n_classes + 1, &names, &larger, err);
  if (status == KF_OK) status = add_class(ctx, model, sum, larger);
  kf_names_clear(&names);
  kf_stats_free(sum);
  KF_HAND_OUT(status, out, larger, kf_model_free);
}

uint32_t kf_model_dim_in(const kf_model *m) { return m->map.dim_in; }
uint32_t kf_model_dim_out(const kf_model *m) { return m->map.dim_out; }
uint32_t kf_model_classes(const kf_model *m) { return m->n_classes; }
int64_t kf_model_count(const kf_model *m, uint32_t k) {
  return k < m->n_classes ? m->counts[k] : 0;
}
int kf_model_normalized(const kf_model *m) { return m->map.normalized; }
const kf_origin *kf_model_origin(const kf_model *m) { return kf_origin_known(&m->map.origin); }
kf_centre kf_model_centre(const kf_model *m) { return m->map.centre; }
kf_method kf_model_method(const kf_model *m) { return m->map.method; }
kf_priors kf_model_priors(const kf_model *m) {
  return m->prior > 0 ? KF_PRIORS_TRAINING : KF_PRIORS_EQUAL;
}
double kf_model_lambda(const kf_model *m) { return m->map.lambda; }
double kf_model_mean_eigenvalue(const kf_model *m) { return m->mean_eigenvalue; }
double kf_model_temperature(const kf_model *m) { return m->temperature; }
double kf_model_reject(const kf_model *m, double *share) {
  if (share != NULL) *share = m->reject_share;
  return m->reject;
}
int kf_model_knows(const kf_model *m, double score) {
  if (!(m->reject_share > 0)) return 1;
  return m->map.normalized ? score >= m->reject : score <= m->reject; /* cosine or distance */
}
const double *kf_model_transform_matrix(const kf_model *m) { return m->map.transform; }
const double *kf_model_mean(const kf_model *m) { return m->map.mean; }
const double *kf_model_within_eigenvalues(const kf_model *m) { return m->within; }
const double *kf_model_between_eigenvalues(const kf_model *m) { return m->between; }
const float *kf_model_class_means(const kf_model *m) { return m->class_means; }
const float *kf_model_prototypes(const kf_model *m) { return m->prototypes; }
const double *kf_model_prototype_lengths(const kf_model *m) { return m->lengths; }

int kf_model_fused(const kf_model *m) { return m->text != NULL; }
double kf_model_alpha(const kf_model *m) { return m->alpha; }
int kf_model_class_has_text(const kf_model *m, uint32_t k) {
  return m->text != NULL && k < m->n_classes && m->text_given[k];
}

uint32_t kf_model_answers(const kf_model *m, kf_part part) {
  if ((unsigned)part > KF_PART_FUSED) return 0;
  const int64_t *evidence = kf_model_evidence(m, part);
  uint32_t n = 0;
  for (uint32_t k = 0; k < m->n_classes; k++) n += evidence[k] > 0;
  return n;
}

const char *kf_model_class_name(const kf_model *m, uint32_t k) {
  return k < m->names.n ? m->names.name[k] : NULL;
}
