/* The public headers of koofu 0.2.0, by tools/abi.py --freeze. Programs that were compiled with
 * them must go on working with later libraries of the same soname. */
#ifndef KOOFU_H
#define KOOFU_H
#include <stddef.h>
#include <stdint.h>
#define KF_API __attribute__((visibility("default")))
#define KF_VERSION_MAJOR 0
#define KF_VERSION_MINOR 2
#define KF_VERSION_PATCH 0
#define KF_VERSION "0.2.0"
#define KF_SHOWN_SIZE 16
#define KF_LABEL_NONE (-1)
#define KF_LABEL_BAD (-2)
#define KF_MAX_DIM 65536u
#define KF_MAX_CLASSES 4194304u
#define KF_MAX_NEIGHBOURS 1024u
#define KF_MAX_BATCHES 64
#define KF_PICTURE_BLOCK 256u
#define KF_ALL_RANKS UINT32_MAX
#define KF_MAX_RANKS 1048576u
#define KF_GROUPS 6
#define KF_CALIBRATION_BINS 15
#define KF_SHOTS_CLASSIFIERS 4
#define KF_MAX_THUMBNAILS 200u
KF_API const char *kf_version(void);
typedef enum kf_switch { KF_DEFAULT = 0, KF_ON = 1, KF_OFF = 2 } kf_switch;
typedef enum kf_status {
  KF_OK = 0,
  KF_ERR_ARG = 1,
  KF_ERR_DATA = 2,
  KF_ERR_IO = 3,
  KF_ERR_MEM = 4,
  KF_ERR_MATH = 5,
  KF_ERR_CANCELLED = 6,
  KF_ERR_INTERNAL = 7
} kf_status;
KF_API const char *kf_status_name(kf_status status);
typedef enum kf_hint {
  KF_HINT_NONE = 0,
  KF_HINT_SKIP_BAD = 1,
  KF_HINT_SKIP_UNLABELLED = 2,
  KF_HINT_SKIP_UNKNOWN = 3,
  KF_HINT_LABELS = 4,
  KF_HINT_CLASSES = 5,
  KF_HINT_TENSOR = 6,
  KF_HINT_LABEL_TENSOR = 7,
  KF_HINT_PICTURES = 8,
  KF_HINT_PER_CLASS = 9,
  KF_HINT_EXPONENT = 10,
  KF_HINT_TRUTH_CLASSES = 11,
  KF_HINT_TRUTH_IDS = 12,
  KF_HINT_ROWS = 13,
  KF_HINT_LAMBDA = 14,
  KF_HINT_ALPHA = 15,
  KF_HINT_NO_RESUME = 16,
  KF_HINT_SKIP_PICTURES = 17,
  KF_HINT_MAX_PIXELS = 18,
  KF_HINT_SPOKEN = 19,
  KF_HINT_REPEATS = 20,
  KF_HINT_METHOD = 21,
  KF_HINT_TEMPERATURE = 22,
  KF_HINT_ORDER = 23,
  KF_HINT_LABEL_COLUMN = 24,
  KF_HINT_ANY_ENCODER = 25,
  KF_HINT_CENTRE = 26,
  KF_HINT_OTHER_NAME = 27,
  KF_HINT_COMPACT = 28
} kf_hint;
KF_API size_t kf_escape_next(const char *text, size_t *at, char shown[16]);
typedef struct kf_ctx kf_ctx;
typedef enum kf_isa {
  KF_ISA_AUTO = 0,
  KF_ISA_PLAIN = 1,
  KF_ISA_AVX2 = 2,
  KF_ISA_AVX512 = 3,
  KF_ISA_AMX = 4
} kf_isa;
KF_API int kf_isa_available(kf_isa isa);
KF_API const char *kf_isa_name(kf_isa isa);
typedef int (*kf_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);
typedef void (*kf_log_fn)(void *user, const char *message);
typedef struct kf_ctx_options {
  unsigned threads;
  kf_isa isa;
  kf_progress_fn progress;
  kf_log_fn log;
  void *user;
  int any_encoder;
  const char *device;
  const char *device_plugin;
  const struct kf_comm *comm;
  uint64_t reserved[4];
} kf_ctx_options;
KF_API kf_status kf_ctx_new(const kf_ctx_options *options, kf_ctx **out);
KF_API void kf_ctx_free(kf_ctx *ctx);
KF_API const char *kf_errmsg(const kf_ctx *ctx);
KF_API kf_hint kf_errhint(const kf_ctx *ctx);
KF_API unsigned kf_ctx_threads(const kf_ctx *ctx);
KF_API kf_isa kf_ctx_isa(const kf_ctx *ctx);
typedef struct kf_device_info {
  const char *name;
  const char *driver;
  uint32_t number;
  uint32_t processors;
  uint64_t memory;
  uint32_t major, minor;
} kf_device_info;
typedef struct kf_device_list {
  const char *plugin;
  const char *build;
  const char *missing;
  uint32_t n;
  const kf_device_info *devices;
} kf_device_list;
KF_API kf_status kf_devices_find(kf_ctx *ctx, const kf_device_list **out);
typedef struct kf_data kf_data;
typedef struct kf_origin kf_origin;
typedef enum kf_dtype { KF_F32 = 0, KF_F16 = 1, KF_BF16 = 2, KF_F64 = 3 } kf_dtype;
KF_API const char *kf_dtype_name(kf_dtype dtype);
typedef enum kf_order {
  KF_ORDER_DEFAULT = 0,
  KF_ORDER_NUMBER = 1,
  KF_ORDER_NAME = 2,
  KF_ORDER_GIVEN = 3
} kf_order;
typedef struct kf_data_options {
  const char *const *labels;
  size_t n_labels;
  const char *classes;
  const char *tensor;
  const char *label_tensor;
  kf_switch inner_labels;
  int skip_bad;
  int allow_unlabelled;
  int allow_unknown;
  const char *only;
  const char *label_column;
  kf_order order;
  uint64_t own_files;
  const char *id_column;
  uint64_t reserved[4];
} kf_data_options;
KF_API kf_status kf_data_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                              const kf_data_options *options, kf_data **out);
KF_API kf_status kf_data_open_memory(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                                     const int32_t *labels, const char *const *names,
                                     uint32_t n_classes, kf_data **out);
typedef struct kf_array {
  const void *rows;
  uint64_t n;
  kf_dtype dtype;
  int64_t row_stride, column_stride;
  uint64_t reserved[2];
} kf_array;
typedef enum kf_skip {
  KF_SKIP_NONE = 0,
  KF_SKIP_BAD = 1,
  KF_SKIP_ZERO = 2
} kf_skip;
typedef struct kf_array_options {
  const int32_t *labels;
  const char *const *names;
  uint32_t n_classes;
  kf_skip skip;
  const char *const *ids;
  uint64_t reserved[6];
} kf_array_options;
KF_API kf_status kf_data_open_arrays(kf_ctx *ctx, const kf_array *arrays, size_t n_arrays,
                                     uint32_t dim, const kf_array_options *options, kf_data **out);
typedef int (*kf_rows_fn)(void *user, uint64_t first, uint64_t n, float *rows);
KF_API kf_status kf_data_open_rows(kf_ctx *ctx, uint64_t n, uint32_t dim, kf_rows_fn bring,
                                   void *user, const kf_array_options *options, kf_data **out);
KF_API void kf_data_free(kf_data *data);
KF_API uint64_t kf_data_rows(const kf_data *data);
KF_API uint32_t kf_data_dim(const kf_data *data);
KF_API int kf_data_has_labels(const kf_data *data);
KF_API uint32_t kf_data_classes(const kf_data *data);
KF_API const char *kf_data_class_name(const kf_data *data, uint32_t k);
KF_API uint64_t kf_data_unlabelled(const kf_data *data);
KF_API int kf_data_has_ids(const kf_data *data);
KF_API kf_status kf_data_get_id(kf_ctx *ctx, const kf_data *data, uint64_t row, char *id,
                                size_t size);
KF_API int kf_data_mapped(const kf_data *data);
KF_API kf_status kf_data_get(kf_ctx *ctx, const kf_data *data, uint64_t first, uint64_t n,
                             float *rows, int32_t *labels);
KF_API kf_status kf_data_labels(kf_ctx *ctx, const kf_data *data, int32_t *labels);
KF_API int kf_data_reads(const kf_data *data, const char *path);
KF_API kf_status kf_data_save(kf_ctx *ctx, const kf_data *data, kf_dtype dtype, const char *path);
typedef struct kf_model kf_model;
typedef struct kf_stats kf_stats;
typedef struct kf_text kf_text;
typedef enum kf_lambda_unit {
  KF_LAMBDA_AUTO = 0,
  KF_LAMBDA_ABSOLUTE = 1,
  KF_LAMBDA_RELATIVE = 2,
  KF_LAMBDA_GDA = 3,
  KF_LAMBDA_LEDOIT_WOLF = 4
} kf_lambda_unit;
typedef struct kf_lambda {
  double value;
  kf_lambda_unit unit;
} kf_lambda;
KF_API kf_status kf_lambda_parse(kf_ctx *ctx, const char *text, kf_lambda *out);
typedef enum kf_centre {
  KF_CENTRE_DEFAULT = 0,
  KF_CENTRE_NONE = 1,
  KF_CENTRE_MEAN = 2,
  KF_CENTRE_MODALITY = 3
} kf_centre;
typedef enum kf_metric {
  KF_METRIC_DEFAULT = 0,
  KF_METRIC_COSINE = 1,
  KF_METRIC_EUCLIDEAN = 2,
  KF_METRIC_INNER = 3
} kf_metric;
KF_API const char *kf_metric_name(kf_metric metric);
typedef struct kf_stats_options {
  kf_switch normalize;
  int exponent;
  int fixed_exponent;
  const char *checkpoint;
  uint64_t reserved[3];
} kf_stats_options;
typedef enum kf_method {
  KF_METHOD_DEFAULT = 0,
  KF_METHOD_SHRUNK = 1,
  KF_METHOD_PAPER = 2
} kf_method;
typedef enum kf_criterion {
  KF_CRITERION_DEFAULT = 0,
  KF_CRITERION_LIKELIHOOD = 1,
  KF_CRITERION_ACCURACY = 2
} kf_criterion;
typedef enum kf_priors {
  KF_PRIORS_DEFAULT = 0,
  KF_PRIORS_EQUAL = 1,
  KF_PRIORS_TRAINING = 2
} kf_priors;
typedef struct kf_fit_options {
  kf_lambda lambda;
  uint32_t dim;
  int choose_dim;
  kf_centre centre;
  kf_metric metric;
  const kf_text *text;
  const double *alpha;
  kf_stats_options stats_options;
  const kf_stats *stats;
  const kf_stats *between;
  int one_se;
  uint64_t sample;
  uint32_t folds;
  double margin;
  kf_method method;
  kf_criterion criterion;
  const uint32_t *groups;
  double reject;
  kf_priors priors;
  uint64_t reserved[4];
} kf_fit_options;
typedef struct kf_fit_report {
  uint64_t rows;
  uint64_t n_unlabelled;
  uint64_t n_bad;
  double lambda;
  double mean_eigenvalue;
  double alpha;
  uint32_t dim;
  uint64_t n, right;
  double standard_error;
  struct kf_lambda_choice *by_lambda;
  struct kf_fuse_choice *by_fusion;
  struct kf_dim_choice *by_dim;
  uint64_t n_compared, n_near;
  int many_near;
  int by_all_rows;
} kf_fit_report;
KF_API kf_status kf_fit(kf_ctx *ctx, const kf_data *data, const kf_fit_options *options,
                        kf_model **out, kf_fit_report **report);
KF_API kf_status kf_fit_stats(kf_ctx *ctx, const kf_stats *stats, const kf_fit_options *options,
                              kf_model **out);
KF_API void kf_fit_report_free(kf_fit_report *report);
typedef struct kf_bytes kf_bytes;
KF_API const void *kf_bytes_data(const kf_bytes *bytes);
KF_API uint64_t kf_bytes_size(const kf_bytes *bytes);
KF_API void kf_bytes_free(kf_bytes *bytes);
KF_API kf_status kf_model_save(kf_ctx *ctx, const kf_model *model, const char *path);
KF_API kf_status kf_model_load(kf_ctx *ctx, const char *path, kf_model **out);
KF_API kf_status kf_bytes_new_of_model(kf_ctx *ctx, const kf_model *model, kf_bytes **out);
KF_API kf_status kf_model_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_model **out);
KF_API void kf_model_free(kf_model *model);
KF_API kf_status kf_model_new_with_class(kf_ctx *ctx, const kf_model *model, const char *name,
                                         const kf_data *samples, kf_model **out);
KF_API uint32_t kf_model_dim_in(const kf_model *model);
KF_API uint32_t kf_model_dim_out(const kf_model *model);
KF_API uint32_t kf_model_classes(const kf_model *model);
KF_API const char *kf_model_class_name(const kf_model *model, uint32_t k);
KF_API int64_t kf_model_count(const kf_model *model, uint32_t k);
KF_API int kf_model_normalized(const kf_model *model);
KF_API kf_centre kf_model_centre(const kf_model *model);
KF_API kf_method kf_model_method(const kf_model *model);
KF_API kf_priors kf_model_priors(const kf_model *model);
KF_API double kf_model_lambda(const kf_model *model);
KF_API double kf_model_mean_eigenvalue(const kf_model *model);
KF_API double kf_model_temperature(const kf_model *model);
KF_API double kf_model_reject(const kf_model *model, double *share);
KF_API const double *kf_model_transform_matrix(const kf_model *model);
KF_API const double *kf_model_mean(const kf_model *model);
KF_API const double *kf_model_within_eigenvalues(const kf_model *model);
KF_API const double *kf_model_between_eigenvalues(const kf_model *model);
KF_API const float *kf_model_class_means(const kf_model *model);
KF_API const float *kf_model_prototypes(const kf_model *model);
KF_API const double *kf_model_prototype_lengths(const kf_model *model);
typedef struct kf_transform_options {
  kf_switch normalize;
  uint64_t reserved[4];
} kf_transform_options;
KF_API kf_status kf_model_takes(kf_ctx *ctx, const kf_model *model, const kf_data *data);
KF_API kf_status kf_transform(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                              const kf_transform_options *options, float *out);
KF_API kf_status kf_transform_data(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                   const kf_transform_options *options, kf_dtype dtype,
                                   const char *path);
typedef enum kf_part {
  KF_PART_DEFAULT = 0,
  KF_PART_IMAGES = 1,
  KF_PART_TEXT = 2,
  KF_PART_FUSED = 3
} kf_part;
KF_API uint32_t kf_model_answers(const kf_model *model, kf_part part);
typedef struct kf_classify_options {
  uint32_t top;
  kf_metric metric;
  int raw;
  kf_part part;
  double temperature;
  uint64_t reserved[3];
} kf_classify_options;
KF_API kf_status kf_classify(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                             const kf_classify_options *options, int32_t *classes, double *scores);
KF_API kf_status kf_classify_probabilities(kf_ctx *ctx, const kf_model *model, const float *rows,
                                           uint64_t n, const kf_classify_options *options,
                                           int32_t *classes, double *scores, double *probabilities);
typedef struct kf_classifier kf_classifier;
KF_API kf_status kf_classifier_new(kf_ctx *ctx, const kf_model *model,
                                   const kf_classify_options *options, kf_classifier **out);
KF_API void kf_classifier_free(kf_classifier *classifier);
KF_API kf_status kf_classifier_classify(kf_ctx *ctx, const kf_classifier *classifier,
                                        const float *rows, uint64_t n, int32_t *classes,
                                        double *scores);
KF_API kf_status kf_classifier_probabilities(kf_ctx *ctx, const kf_classifier *classifier,
                                             const float *rows, uint64_t n, int32_t *classes,
                                             double *scores, double *probabilities);
KF_API int kf_model_knows(const kf_model *model, double score);
typedef struct kf_text_options {
  uint32_t per_class;
  const char *classes;
  const char *const *names;
  size_t n_names;
  kf_switch unit_rows;
  kf_switch unit_mean;
  uint64_t reserved[4];
} kf_text_options;
KF_API kf_status kf_text_new(kf_ctx *ctx, const kf_data *data, const kf_text_options *options,
                             kf_text **out);
KF_API kf_status kf_text_save(kf_ctx *ctx, const kf_text *text, const char *path);
KF_API void kf_text_free(kf_text *text);
KF_API uint32_t kf_text_classes(const kf_text *text);
KF_API uint32_t kf_text_dim(const kf_text *text);
KF_API const char *kf_text_class_name(const kf_text *text, uint32_t k);
KF_API const float *kf_text_rows(const kf_text *text);
KF_API uint64_t kf_text_checksum(const kf_text *text);
KF_API kf_status kf_text_mean(kf_ctx *ctx, const kf_data *data, double *mean);
KF_API kf_status kf_model_new_zero_shot(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_centre centre, kf_model **out);
KF_API kf_status kf_model_new_fused(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                    double alpha, kf_model **out);
KF_API kf_status kf_model_new_with_text(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_model **out);
KF_API int kf_model_fused(const kf_model *model);
KF_API double kf_model_alpha(const kf_model *model);
KF_API kf_status kf_text_new_of_model(kf_ctx *ctx, const kf_model *model, kf_text **out);
KF_API int kf_model_class_has_text(const kf_model *model, uint32_t k);
typedef struct kf_index kf_index;
typedef struct kf_index_options {
  kf_metric metric;
  int rows_in_place;
  kf_dtype dtype;
  uint64_t queries;
  uint64_t reserved[2];
} kf_index_options;
KF_API kf_status kf_index_new(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                              const kf_index_options *options, kf_index **out);
KF_API kf_status kf_index_new_from_data(kf_ctx *ctx, const kf_data *data,
                                        const kf_index_options *options, kf_index **out);
KF_API void kf_index_free(kf_index *index);
KF_API uint64_t kf_index_rows(const kf_index *index);
KF_API uint32_t kf_index_dim(const kf_index *index);
KF_API kf_metric kf_index_metric(const kf_index *index);
KF_API uint64_t kf_index_bytes(const kf_index *index);
typedef struct kf_filter kf_filter;
typedef struct kf_search_options {
  const int64_t *leave_out;
  const double *text_mean;
  const kf_filter *only;
  uint64_t reserved[2];
} kf_search_options;
typedef struct kf_search_report {
  uint64_t queries;
  uint64_t candidates;
  uint64_t far;
  uint64_t reserved[3];
} kf_search_report;
KF_API kf_status kf_search(kf_ctx *ctx, const kf_index *index, const float *queries, uint64_t n,
                           uint32_t k, const kf_search_options *options, int64_t *rows,
                           double *scores, kf_search_report *report);
typedef struct kf_gallery kf_gallery;
typedef struct kf_gallery_change {
  uint64_t rows;
  uint64_t added, removed;
  uint64_t missing;
  uint64_t bytes;
  uint64_t changes;
  uint64_t reserved[4];
} kf_gallery_change;
typedef struct kf_gallery_options {
  kf_metric
      metric;
  const char *ids;
  const char *append_to;
  uint32_t k;
  int again;
  int *repeated;
  kf_dtype dtype;
  int replace;
  kf_gallery_change *change;
  uint64_t reserved[4];
} kf_gallery_options;
KF_API kf_status kf_gallery_save(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                 const kf_gallery_options *options, const char *path);
typedef struct kf_id_list {
  const char *const *ids;
  uint64_t n;
  const char *file;
  uint64_t reserved[2];
} kf_id_list;
KF_API kf_status kf_gallery_remove(kf_ctx *ctx, const char *path, const kf_id_list *ids,
                                   kf_gallery_change *change);
KF_API kf_status kf_gallery_compact(kf_ctx *ctx, const char *path, kf_gallery_change *change);
typedef struct kf_gallery_load_options {
  int rerank_from_disk;
  uint64_t queries;
  const char *const *more;
  uint64_t n_more;
  uint64_t reserved[1];
} kf_gallery_load_options;
KF_API kf_status kf_gallery_load(kf_ctx *ctx, const char *path,
                                 const kf_gallery_load_options *options, kf_gallery **out);
KF_API kf_status kf_gallery_new(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                const kf_gallery_options *options, kf_gallery **out);
KF_API void kf_gallery_free(kf_gallery *gallery);
KF_API uint64_t kf_gallery_rows(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_dim_in(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_dim(const kf_gallery *gallery);
KF_API kf_metric kf_gallery_metric(const kf_gallery *gallery);
KF_API kf_dtype
kf_gallery_dtype(const kf_gallery *gallery);
KF_API int kf_gallery_mapped(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_k(const kf_gallery *gallery);
KF_API int kf_gallery_made_with(const kf_gallery *gallery, const kf_model *model);
KF_API int kf_gallery_has_labels(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_classes(const kf_gallery *gallery);
KF_API const char *kf_gallery_class_name(const kf_gallery *gallery,
                                         uint32_t k);
KF_API int32_t kf_gallery_label(const kf_gallery *gallery, uint64_t row);
KF_API const char *kf_gallery_id(const kf_gallery *gallery, uint64_t row);
KF_API uint64_t kf_gallery_file_of(const kf_gallery *gallery, uint64_t row, uint64_t *own);
KF_API const kf_index *kf_gallery_index(const kf_gallery *gallery);
KF_API uint64_t kf_gallery_batch(const kf_ctx *ctx, const kf_gallery *gallery);
KF_API kf_status kf_gallery_takes(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data);
KF_API kf_status kf_gallery_search(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                   uint64_t n, uint32_t k, const kf_search_options *options,
                                   int64_t *rows, double *scores, kf_search_report *report);
KF_API kf_status kf_gallery_search_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                          uint64_t n, uint32_t k, int64_t *rows, double *scores,
                                          kf_search_report *report);
typedef struct kf_filter_options {
  const char
      *classes;
  const kf_id_list *ids;
  const char *const *names;
  uint64_t n_names;
  uint64_t reserved[2];
} kf_filter_options;
KF_API kf_status kf_filter_new(kf_ctx *ctx, const kf_gallery *gallery,
                               const kf_filter_options *options, kf_filter **out);
KF_API uint64_t kf_filter_rows(const kf_filter *filter);
KF_API void kf_filter_free(kf_filter *filter);
typedef struct kf_ranges {
  uint64_t queries;
  const uint64_t *ends;
  const int64_t *rows;
  const double *scores;
} kf_ranges;
KF_API kf_status kf_gallery_within(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                   uint64_t n, double limit, const kf_search_options *options,
                                   kf_ranges **out, kf_search_report *report);
KF_API kf_status kf_gallery_within_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                          uint64_t n, double limit, const kf_filter *only,
                                          kf_ranges **out, kf_search_report *report);
KF_API void kf_ranges_free(kf_ranges *ranges);
typedef struct kf_unique {
  uint64_t groups;
  uint64_t copies;
  uint64_t pairs;
  uint64_t reserved[3];
} kf_unique;
KF_API kf_status kf_gallery_unique(kf_ctx *ctx, const kf_gallery *gallery, double limit,
                                   uint64_t *first, kf_unique *found);
typedef struct kf_vote_options {
  uint32_t k;
  uint32_t top;
  int weighted;
  double temperature;
  const kf_filter *only;
  uint64_t reserved[3];
} kf_vote_options;
KF_API kf_status kf_gallery_classify(kf_ctx *ctx, const kf_gallery *gallery, const float *rows,
                                     uint64_t n, const kf_vote_options *options, int32_t *classes,
                                     double *scores, kf_search_report *report);
typedef struct kf_encoder kf_encoder;
typedef enum kf_precision {
  KF_PRECISION_AUTO = 0,
  KF_PRECISION_F32 = 1,
  KF_PRECISION_BF16 = 2
} kf_precision;
typedef struct kf_encoder_options {
  kf_precision precision;
  kf_switch images;
  kf_switch text;
  uint64_t max_pixels;
  uint64_t reserved[4];
} kf_encoder_options;
KF_API kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                                 kf_encoder **out);
KF_API void kf_encoder_free(kf_encoder *encoder);
KF_API uint32_t kf_encoder_dim(const kf_encoder *encoder);
KF_API uint32_t kf_encoder_image_size(const kf_encoder *encoder);
KF_API uint32_t kf_encoder_context(const kf_encoder *encoder);
KF_API kf_precision kf_encoder_precision(const kf_encoder *encoder);
KF_API uint64_t kf_encoder_bytes(const kf_encoder *encoder);
KF_API uint64_t kf_encoder_checksum(const kf_encoder *encoder);
KF_API const kf_origin *kf_encoder_origin(const kf_encoder *encoder);
KF_API const kf_origin *kf_data_origin(const kf_data *data);
KF_API const kf_origin *kf_stats_origin(const kf_stats *stats);
KF_API const kf_origin *kf_text_origin(const kf_text *text);
KF_API const kf_origin *kf_model_origin(const kf_model *model);
KF_API const kf_origin *kf_gallery_origin(const kf_gallery *gallery);
KF_API const char *kf_origin_name(const kf_origin *origin);
KF_API uint64_t kf_origin_checksum(const kf_origin *origin);
KF_API kf_status kf_origins_agree(kf_ctx *ctx, const kf_origin *a, const kf_origin *b);
KF_API kf_status kf_encode_images(kf_ctx *ctx, const kf_encoder *encoder, const char *const *paths,
                                  uint64_t n, float *out, kf_status *status);
typedef struct kf_image_bytes {
  const void *bytes;
  uint64_t n;
  uint32_t width, height;
  uint64_t reserved[2];
} kf_image_bytes;
KF_API kf_status kf_encode_image_bytes(kf_ctx *ctx, const kf_encoder *encoder,
                                       const kf_image_bytes *pictures, uint64_t n, float *out,
                                       kf_status *status);
KF_API kf_status kf_encode_pixels(kf_ctx *ctx, const kf_encoder *encoder, const float *pixels,
                                  uint64_t n, float *out);
KF_API kf_status kf_preprocess_image(kf_ctx *ctx, const kf_encoder *encoder, const char *path,
                                     float *pixels);
KF_API kf_status kf_thumbnail_new(kf_ctx *ctx, const kf_image_bytes *picture, uint32_t side,
                                  uint64_t max_pixels, kf_bytes **out);
KF_API kf_status kf_encode_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                                 uint64_t n, float *out);
KF_API kf_status kf_tokenize(kf_ctx *ctx, const kf_encoder *encoder, const char *text,
                             int32_t *tokens, uint32_t *n);
typedef struct kf_pictures kf_pictures;
KF_API kf_status kf_pictures_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                  kf_pictures **out);
typedef struct kf_pictures_options {
  const char
      *label_key;
  uint64_t reserved[3];
} kf_pictures_options;
KF_API kf_status kf_pictures_open_with(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                       const kf_pictures_options *options, kf_pictures **out);
KF_API kf_status kf_pictures_open_list(kf_ctx *ctx, const char *list, kf_pictures **out);
KF_API void kf_pictures_free(kf_pictures *pictures);
KF_API uint64_t kf_pictures_count(const kf_pictures *pictures);
KF_API const char *kf_pictures_path(const kf_pictures *pictures, uint64_t i);
KF_API const char *kf_pictures_id(const kf_pictures *pictures, uint64_t i);
KF_API uint32_t kf_pictures_classes(const kf_pictures *pictures);
KF_API const char *kf_pictures_class_name(const kf_pictures *pictures, uint32_t k);
KF_API int32_t kf_pictures_label(const kf_pictures *pictures, uint64_t i);
KF_API int kf_pictures_inside(const kf_pictures *pictures, const char *path);
typedef struct kf_embed_options {
  kf_dtype dtype;
  kf_switch normalize;
  int skip_bad;
  uint32_t shard;
  kf_switch resume;
  const char
      *metadata;
  uint64_t reserved[3];
} kf_embed_options;
typedef struct kf_embed_report {
  uint64_t rows;
  uint64_t skipped;
  uint64_t resumed;
  uint64_t reused;
  int unchanged;
  uint64_t reserved[2];
} kf_embed_report;
KF_API kf_status kf_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                          const kf_embed_options *options, const char *path,
                          kf_embed_report *report);
typedef struct kf_prompts kf_prompts;
typedef enum kf_repeats {
  KF_REPEATS_NONE = 0,
  KF_REPEATS_NAMES = 1,
  KF_REPEATS_ALL = 2
} kf_repeats;
typedef struct kf_prompts_options {
  const char *classes;
  const char *const *names;
  size_t n_names;
  int folders;
  const char *spoken;
  const char *templates;
  int all_names;
  kf_repeats repeats;
  uint64_t reserved[4];
} kf_prompts_options;
KF_API kf_status kf_prompts_new(kf_ctx *ctx, const kf_prompts_options *options, kf_prompts **out);
KF_API kf_status kf_prompts_read(kf_ctx *ctx, const char *path, kf_prompts **out);
KF_API void kf_prompts_free(kf_prompts *prompts);
KF_API uint64_t kf_prompts_count(const kf_prompts *prompts);
KF_API const char *kf_prompts_text(const kf_prompts *prompts, uint64_t i);
KF_API int32_t kf_prompts_class(const kf_prompts *prompts, uint64_t i);
KF_API uint32_t kf_prompts_classes(const kf_prompts *prompts);
KF_API const char *kf_prompts_class_name(const kf_prompts *prompts, uint32_t k);
KF_API kf_status kf_text_new_from_prompts(kf_ctx *ctx, const kf_encoder *encoder,
                                          const kf_prompts *prompts, const kf_text_options *options,
                                          kf_text **out);
KF_API kf_status kf_encoder_text_mean(kf_ctx *ctx, const kf_encoder *encoder, double *mean);
KF_API kf_status kf_prompts_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_prompts *prompts,
                                  kf_dtype dtype, const char *path);
typedef struct kf_reader kf_reader;
typedef struct kf_reader_options {
  uint64_t block;
  int skip_bad;
  uint64_t reserved[4];
} kf_reader_options;
typedef struct kf_reader_block {
  uint64_t first, taken;
  uint64_t n;
  const float *rows;
  const uint64_t *numbers;
  const int32_t *labels;
  uint64_t reserved[3];
} kf_reader_block;
KF_API kf_status kf_reader_open_data(kf_ctx *ctx, const kf_data *data,
                                     const kf_reader_options *options, kf_reader **out);
KF_API kf_status kf_reader_open_pictures(kf_ctx *ctx, const kf_encoder *encoder,
                                         const kf_pictures *pictures,
                                         const kf_reader_options *options, kf_reader **out);
KF_API kf_status kf_reader_open_texts(kf_ctx *ctx, const kf_encoder *encoder,
                                      const char *const *texts, uint64_t n,
                                      const kf_reader_options *options, kf_reader **out);
KF_API void kf_reader_free(kf_reader *reader);
KF_API uint64_t kf_reader_rows(const kf_reader *reader);
KF_API uint32_t kf_reader_dim(const kf_reader *reader);
KF_API uint64_t kf_reader_bad(const kf_reader *reader);
KF_API const char *kf_reader_id(const kf_reader *reader, uint64_t number);
KF_API kf_status kf_reader_next(kf_ctx *ctx, kf_reader *reader, kf_reader_block *out);
typedef struct kf_quickstart_options {
  const char *name;
  const char *title;
  kf_switch text;
  const char *templates;
  kf_embed_options embed;
  uint64_t reserved[8];
} kf_quickstart_options;
typedef struct kf_quickstart_result {
  kf_embed_report embed;
  uint64_t rows;
  uint32_t classes, dim_in, dim;
  uint64_t prompts;
  double lambda, alpha;
  uint64_t n, n_single;
  uint64_t raw_top1;
  uint64_t top1;
  uint64_t text_top1, fused_top1;
  uint32_t folds;
  uint64_t dim_n, dim_top1, all_top1;
  uint32_t fewer;
  int many_near;
  uint64_t n_compared, n_near;
  int text_reused;
  uint64_t raw_n;
  uint64_t reserved[3];
} kf_quickstart_result;
KF_API kf_status kf_quickstart(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                               const kf_quickstart_options *options, const char *folder,
                               kf_quickstart_result *out);
KF_API kf_status kf_quickstart_check(kf_ctx *ctx, const kf_pictures *pictures,
                                     const kf_quickstart_options *options, const char *folder);
KF_API kf_status kf_stats_new(kf_ctx *ctx, uint32_t dim, uint32_t n_classes,
                              const char *const *names, const kf_stats_options *options,
                              kf_stats **out);
KF_API kf_status kf_stats_add(kf_ctx *ctx, kf_stats *stats, const float *rows,
                              const int32_t *labels, uint64_t n);
KF_API kf_status kf_stats_new_from_data(kf_ctx *ctx, const kf_data *data,
                                        const kf_stats_options *options, kf_stats **out);
KF_API kf_status kf_stats_merge(kf_ctx *ctx, kf_stats *into, const kf_stats *other);
KF_API kf_status kf_stats_subtract(kf_ctx *ctx, kf_stats *into, const kf_stats *other);
KF_API kf_status kf_stats_save(kf_ctx *ctx, const kf_stats *stats, const char *path);
KF_API kf_status kf_stats_load(kf_ctx *ctx, const char *path, kf_stats **out);
KF_API kf_status kf_bytes_new_of_stats(kf_ctx *ctx, const kf_stats *stats, kf_bytes **out);
KF_API kf_status kf_stats_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_stats **out);
KF_API void kf_stats_free(kf_stats *stats);
KF_API uint32_t kf_stats_dim(const kf_stats *stats);
KF_API uint32_t kf_stats_classes(const kf_stats *stats);
KF_API const char *kf_stats_class_name(const kf_stats *stats, uint32_t k);
KF_API uint64_t kf_stats_rows(const kf_stats *stats);
KF_API int64_t kf_stats_count(const kf_stats *stats, uint32_t k);
KF_API int kf_stats_normalized(const kf_stats *stats);
KF_API int kf_stats_exponent(const kf_stats *stats);
KF_API const int64_t *kf_stats_class_sum(const kf_stats *stats, uint32_t k);
KF_API void kf_stats_moment(const kf_stats *stats, uint32_t i, uint32_t j, int64_t *hi,
                            uint64_t *lo);
KF_API kf_status kf_stats_scatter(kf_ctx *ctx, const kf_stats *stats, double *s_w, double *s_b,
                                  double *mean);
typedef struct kf_synth_options {
  uint64_t seed;
  uint32_t classes;
  uint32_t dim;
  uint64_t per_class;
  uint32_t split;
  uint64_t reserved[4];
} kf_synth_options;
KF_API kf_status kf_synth_open(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);
KF_API kf_status kf_synth_open_text(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);
typedef struct kf_tensor_info {
  const char *name;
  const char *dtype;
  uint32_t ndim;
  uint64_t shape[8];
} kf_tensor_info;
typedef struct kf_info {
  const char *format;
  const char *kind;
  uint64_t bytes;
  uint64_t rows;
  uint32_t dim;
  uint32_t classes;
  uint32_t dim_out;
  int ids;
  int normalized;
  int exponent;
  double lambda;
  size_t n_tensors;
  const kf_tensor_info *tensors;
  size_t n_meta;
  const char *const *meta_keys;
  const char *const *meta_values;
  double temperature;
  double reject, reject_share;
  const char *encoder;
  uint64_t encoder_checksum;
  kf_method method;
  kf_priors priors;
} kf_info;
KF_API kf_status kf_info_read(kf_ctx *ctx, const char *path, kf_info **out);
KF_API void kf_info_free(kf_info *info);
KF_API const char *kf_info_meta(const kf_info *info, const char *key);
KF_API kf_status kf_verify(kf_ctx *ctx, const char *path, kf_info **out);
typedef struct kf_export_options {
  kf_switch normalize;
  kf_metric metric;
  int raw;
  kf_part part;
  double temperature;
  const char *gallery;
  uint64_t inline_bytes;
  int single;
  const char *license, *base_model;
  uint64_t reserved[4];
} kf_export_options;
KF_API kf_status kf_export(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                           const char *path);
typedef struct kf_output kf_output;
KF_API kf_status kf_output_open(kf_ctx *ctx, const char *path, kf_output **out);
KF_API kf_status kf_output_write(kf_ctx *ctx, kf_output *output, const void *bytes, uint64_t n);
KF_API kf_status kf_output_write_at(kf_ctx *ctx, kf_output *output, uint64_t offset,
                                    const void *bytes, uint64_t n);
KF_API kf_status kf_output_commit(kf_ctx *ctx, kf_output *output);
KF_API void kf_output_free(kf_output *output);
typedef struct kf_records kf_records;
typedef enum kf_column_type {
  KF_COLUMN_TEXT = 0,
  KF_COLUMN_INTEGER = 1,
  KF_COLUMN_REAL = 2
} kf_column_type;
typedef struct kf_column {
  const char *name;
  kf_column_type type;
  uint64_t reserved[2];
} kf_column;
typedef struct kf_cell {
  const char *text;
  int64_t integer;
  double real;
  int null;
  uint64_t reserved[2];
} kf_cell;
KF_API kf_status kf_records_open(kf_ctx *ctx, const char *path, const kf_column *columns, size_t n,
                                 kf_records **out);
KF_API kf_status kf_records_add(kf_ctx *ctx, kf_records *records, const kf_cell *cells);
KF_API kf_status kf_records_commit(kf_ctx *ctx, kf_records *records);
KF_API void kf_records_free(kf_records *records);
KF_API kf_status kf_outputs_begin(kf_ctx *ctx);
KF_API kf_status kf_outputs_commit(kf_ctx *ctx);
KF_API void kf_outputs_abort(kf_ctx *ctx);
typedef struct kf_comm {
  uint32_t rank, size;
  void *self;
  int (*sum)(void *self, uint64_t *pairs, uint64_t n);
  int (*gather)(void *self, const void *part, void *all, const uint64_t *ends, uint32_t to);
  int (*broadcast)(void *self, void *bytes, uint64_t n, uint32_t from);
  void (*abort)(void *self);
  uint32_t (*progress)(void *self, uint64_t stage, uint64_t done, uint64_t *all);
  uint64_t reserved[2];
} kf_comm;
KF_API uint32_t kf_ctx_rank(const kf_ctx *ctx);
KF_API uint32_t kf_ctx_ranks(const kf_ctx *ctx);
KF_API kf_status kf_agree(kf_ctx *ctx, kf_status status, const char *message);
typedef struct kf_truth kf_truth;
typedef struct kf_truth_options {
  const char *classes;
  const char *ids;
  uint64_t reserved[4];
} kf_truth_options;
KF_API kf_status kf_truth_load(kf_ctx *ctx, const char *path, const kf_truth_options *options,
                               kf_truth **out);
KF_API void kf_truth_free(kf_truth *truth);
KF_API uint64_t kf_truth_rows(const kf_truth *truth);
KF_API uint32_t kf_truth_classes(const kf_truth *truth);
KF_API const char *kf_truth_class_name(const kf_truth *truth, uint32_t k);
KF_API size_t kf_truth_row(const kf_truth *truth, uint64_t row, const int32_t **classes);
typedef struct kf_class_set kf_class_set;
KF_API kf_status kf_class_set_load(kf_ctx *ctx, const char *path, kf_class_set **out);
KF_API kf_status kf_class_set_new(kf_ctx *ctx, const char *const *names, uint32_t n,
                                  kf_class_set **out);
KF_API void kf_class_set_free(kf_class_set *set);
KF_API uint32_t kf_class_set_size(const kf_class_set *set);
KF_API const char *kf_class_set_name(const kf_class_set *set, uint32_t i);
KF_API int kf_class_set_has(const kf_class_set *set, const char *name);
typedef struct kf_hierarchy kf_hierarchy;
KF_API kf_status kf_hierarchy_load(kf_ctx *ctx, const char *path, const char *names,
                                   kf_hierarchy **out);
KF_API void kf_hierarchy_free(kf_hierarchy *hierarchy);
KF_API uint32_t kf_hierarchy_classes(const kf_hierarchy *hierarchy);
KF_API uint64_t kf_hierarchy_edges(const kf_hierarchy *hierarchy);
KF_API const char *kf_hierarchy_name(const kf_hierarchy *hierarchy, const char *class_name);
typedef enum kf_kin {
  KF_KIN_LEAVES = 0,
  KF_KIN_ANCESTORS = 1,
  KF_KIN_DESCENDANTS = 2
} kf_kin;
KF_API kf_status kf_class_set_new_kin(kf_ctx *ctx, const kf_hierarchy *hierarchy,
                                      const kf_class_set *set, kf_kin kin, kf_class_set **out);
typedef enum kf_group {
  KF_GROUP_ONLY = 0,
  KF_GROUP_BOTH = 1,
  KF_GROUP_ANCESTORS = 2,
  KF_GROUP_DESCENDANTS = 3,
  KF_GROUP_LEAVES = 4,
  KF_GROUP_OTHER = 5
} kf_group;
KF_API const char *kf_group_name(kf_group group);
KF_API kf_status kf_class_groups_new(kf_ctx *ctx, const kf_hierarchy *hierarchy,
                                     const kf_class_set *first, const kf_class_set *second,
                                     kf_class_set **out);
typedef struct kf_eval_options {
  kf_metric metric;
  kf_switch include_raw;
  kf_switch include_mapped;
  const kf_truth *truth;
  const kf_class_set *set;
  kf_part part;
  uint64_t reserved[4];
} kf_eval_options;
typedef struct kf_eval_result {
  uint64_t rows;
  uint64_t n;
  uint64_t n_unlabelled;
  uint64_t n_absent;
  uint64_t n_bad;
  uint64_t n_excluded;
  uint32_t absent_classes;
  uint64_t top1, top5;
  uint64_t raw_top1, raw_top5;
  uint64_t reserved[4];
} kf_eval_result;
KF_API kf_status kf_eval(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                         const kf_eval_options *options, kf_eval_result *out);
KF_API void kf_interval95(uint64_t hits, uint64_t n, double *low, double *high);
typedef struct kf_gallery_eval_options {
  const uint32_t *k;
  size_t n_k;
  int weighted;
  double temperature;
  const kf_truth *truth;
  const kf_class_set *set;
  uint64_t reserved[4];
} kf_gallery_eval_options;
typedef struct kf_hits {
  uint32_t k;
  uint64_t top1, top5;
} kf_hits;
KF_API kf_status kf_gallery_eval(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data,
                                 const kf_gallery_eval_options *options, kf_eval_result *counts,
                                 kf_hits *hits, kf_search_report *report);
typedef struct kf_class_result {
  uint64_t n, top1, top5;
  uint64_t answers;
} kf_class_result;
typedef struct kf_confusion {
  int32_t truth, answer;
  uint64_t n;
} kf_confusion;
typedef struct kf_margin_bin {
  double low, high;
  uint64_t n, top1;
} kf_margin_bin;
typedef struct kf_mistake {
  uint64_t row;
  int32_t truth, answer;
  double score;
  double margin;
  double probability, right_probability;
} kf_mistake;
typedef struct kf_analysis {
  kf_eval_result totals;
  uint32_t n_classes;
  kf_class_result *classes;
  size_t n_confusions;
  kf_confusion *confusions;
  size_t n_bins;
  kf_margin_bin *bins;
  size_t n_mistakes;
  kf_mistake *mistakes;
  struct kf_calibration *calibration;
} kf_analysis;
typedef struct kf_analysis_options {
  kf_metric metric;
  int raw;
  const kf_truth *truth;
  const kf_class_set *set;
  double temperature;
  int mistakes;
  uint64_t reserved[2];
} kf_analysis_options;
KF_API kf_status kf_analysis_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                 const kf_analysis_options *options, kf_analysis **out);
KF_API void kf_analysis_free(kf_analysis *analysis);
typedef struct kf_calibration_bin {
  double low, high;
  uint64_t n, top1;
  double confidence;
} kf_calibration_bin;
typedef struct kf_calibration {
  kf_eval_result totals;
  double temperature;
  double nll;
  double brier;
  double ece;
  double confidence;
  kf_calibration_bin bins[15];
} kf_calibration;
KF_API kf_status kf_calibration_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                    const kf_analysis_options *options, kf_calibration **out);
KF_API void kf_calibration_free(kf_calibration *calibration);
typedef struct kf_open_set_result {
  uint64_t n_known, n_unknown;
  double auroc;
  double fpr95;
  double threshold;
  double kept, refused;
  uint64_t reserved[2];
} kf_open_set_result;
KF_API kf_status kf_open_set(kf_ctx *ctx, const kf_model *model, const kf_data *known,
                             const kf_data *unknown, const kf_analysis_options *options,
                             kf_open_set_result *out);
typedef struct kf_verdicts kf_verdicts;
KF_API kf_status kf_verdicts_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                 const kf_analysis_options *options, kf_verdicts **out);
KF_API kf_status kf_verdicts_read(kf_ctx *ctx, const char *path, const kf_data *data,
                                  const kf_truth *truth, const kf_class_set *set,
                                  kf_verdicts **out);
KF_API void kf_verdicts_free(kf_verdicts *verdicts);
KF_API const kf_eval_result *kf_verdicts_counts(const kf_verdicts *verdicts);
typedef struct kf_comparison {
  uint64_t rows;
  uint64_t n;
  uint64_t both, neither;
  uint64_t only_a, only_b;
  double difference, low, high;
  double p;
  uint64_t reserved[4];
} kf_comparison;
KF_API kf_status kf_compare(kf_ctx *ctx, const kf_verdicts *a, const kf_verdicts *b,
                            kf_comparison *out);
KF_API double kf_mcnemar(uint64_t b, uint64_t c);
KF_API double kf_loss_upper95(uint64_t lost, uint64_t won, uint64_t n);
typedef struct kf_near_rows {
  uint64_t n;
  uint64_t near;
  uint64_t copies;
  int many;
  uint64_t reserved[4];
} kf_near_rows;
KF_API kf_status kf_near_duplicates(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                    kf_near_rows *out);
typedef struct kf_lambda_point {
  double lambda;
  uint64_t top1, top5;
  double loss, temperature, loss_error;
} kf_lambda_point;
typedef struct kf_lambda_options {
  kf_metric metric;
  kf_centre centre;
  uint64_t sample;
  const double *grid;
  size_t n_grid;
  int one_se;
  kf_method method;
  kf_criterion criterion;
  const uint32_t *groups;
  kf_priors priors;
  uint64_t reserved[1];
} kf_lambda_options;
typedef struct kf_lambda_choice {
  double lambda;
  double mean_eigenvalue;
  double standard_error;
  kf_metric metric;
  uint64_t rows;
  uint64_t n;
  uint64_t n_single;
  size_t chosen, best;
  size_t n_points;
  kf_lambda_point *points;
  kf_criterion criterion;
  kf_lambda_point all;
  uint64_t n_all;
} kf_lambda_choice;
KF_API kf_status kf_lambda_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                      const kf_lambda_options *options, kf_lambda_choice **out);
KF_API void kf_lambda_choice_free(kf_lambda_choice *choice);
KF_API kf_status kf_lambda_ledoit_wolf(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                       kf_lambda *out);
typedef struct kf_fuse_point {
  double lambda;
  double alpha;
  uint64_t top1, top5;
  double loss, temperature, loss_error;
} kf_fuse_point;
typedef struct kf_fuse_options {
  kf_centre centre;
  uint64_t sample;
  kf_lambda lambda;
  const double *alphas;
  size_t n_alphas;
  kf_method method;
  kf_criterion criterion;
  const uint32_t *groups;
  uint64_t reserved[2];
} kf_fuse_options;
typedef struct kf_fuse_choice {
  double lambda, alpha;
  double mean_eigenvalue;
  double standard_error;
  uint64_t rows, n, n_single;
  uint64_t text_top1;
  size_t chosen;
  size_t n_points;
  kf_fuse_point *points;
  kf_criterion criterion;
} kf_fuse_choice;
KF_API kf_status kf_fuse_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                    const kf_text *text, const kf_fuse_options *options,
                                    kf_fuse_choice **out);
KF_API void kf_fuse_choice_free(kf_fuse_choice *choice);
typedef struct kf_dim_point {
  uint32_t dim;
  uint64_t top1, top5;
  uint64_t lost, won;
} kf_dim_point;
typedef struct kf_dim_options {
  kf_lambda lambda;
  kf_metric metric;
  kf_centre centre;
  kf_method method;
  uint32_t folds;
  uint64_t sample;
  double margin;
  const uint32_t *groups;
  kf_priors priors;
  uint64_t reserved[1];
} kf_dim_options;
typedef struct kf_dim_choice {
  uint32_t dim, best;
  uint32_t folds;
  uint64_t n;
  size_t n_points;
  kf_dim_point *points;
  double margin;
  uint64_t independent;
  uint32_t same;
} kf_dim_choice;
KF_API kf_status kf_dim_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                   const kf_dim_options *options, kf_dim_choice **out);
KF_API void kf_dim_choice_free(kf_dim_choice *choice);
KF_API double kf_dim_upper95(const kf_dim_choice *choice, size_t i);
typedef struct kf_k_options {
  uint32_t most;
  int weighted;
  double temperature;
  uint64_t sample;
  double tolerance;
  uint32_t folds;
  kf_metric metric;
  uint64_t reserved[3];
} kf_k_options;
typedef struct kf_k_point {
  uint32_t k;
  uint64_t top1, top5;
  uint64_t lost, won;
} kf_k_point;
typedef struct kf_k_choice {
  uint32_t k, best;
  uint64_t n;
  size_t n_points;
  kf_k_point *points;
  uint32_t folds;
} kf_k_choice;
KF_API kf_status kf_k_choice_new(kf_ctx *ctx, const kf_gallery *gallery,
                                 const kf_k_options *options, kf_k_choice **out);
KF_API kf_status kf_k_choice_new_by_folds(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                          const kf_model *model, const kf_k_options *options,
                                          kf_k_choice **out);
KF_API kf_status kf_k_choice_new_for_rows(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                          const kf_k_options *options, kf_k_choice **out);
KF_API void kf_k_choice_free(kf_k_choice *choice);
typedef struct kf_sweep_cell {
  int raw;
  double lambda;
  double relative;
  uint32_t dim;
  uint32_t k;
  kf_metric metric;
  uint32_t set;
  kf_centre text;
  int fused;
  double alpha;
  uint64_t n, top1, top5;
} kf_sweep_cell;
typedef struct kf_sweep_options {
  const kf_lambda *lambdas;
  size_t n_lambdas;
  const uint32_t *dims;
  size_t n_dims;
  const uint32_t *k;
  size_t n_k;
  const kf_metric *metrics;
  size_t n_metrics;
  const kf_class_set *const *sets;
  size_t n_sets;
  kf_centre centre;
  kf_switch include_raw;
  kf_switch include_prototypes;
  uint32_t folds;
  int leave_one_out;
  uint64_t sample;
  const kf_stats *between;
  const kf_truth *truth;
  const kf_text *text;
  const kf_centre *text_centres;
  size_t n_text_centres;
  int fuse;
  const double *alphas;
  size_t n_alphas;
  kf_method method;
  kf_priors priors;
  uint64_t reserved[7];
} kf_sweep_options;
typedef struct kf_sweep {
  double mean_eigenvalue;
  uint32_t folds;
  kf_eval_result counts;
  size_t n_cells;
  kf_sweep_cell *cells;
} kf_sweep;
KF_API kf_status kf_sweep_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *train,
                              const kf_data *test, const kf_sweep_options *options, kf_sweep **out);
KF_API void kf_sweep_free(kf_sweep *sweep);
typedef enum kf_shots_classifier {
  KF_SHOTS_RAW = 0,
  KF_SHOTS_KOOFU = 1,
  KF_SHOTS_TEXT = 2,
  KF_SHOTS_FUSED = 3
} kf_shots_classifier;
KF_API const char *kf_shots_classifier_name(kf_shots_classifier classifier);
typedef struct kf_shots_options {
  const uint32_t *shots;
  size_t n_shots;
  uint32_t seeds;
  const kf_truth *truth;
  kf_method method;
  uint64_t reserved[3];
} kf_shots_options;
typedef struct kf_shots_point {
  uint32_t shots;
  uint32_t seed;
  kf_shots_classifier classifier;
  uint64_t n, top1, top5;
  double lambda;
  double alpha;
} kf_shots_point;
typedef struct kf_shots_size {
  uint32_t shots;
  uint32_t fewer;
  uint64_t rows;
} kf_shots_size;
typedef struct kf_shots {
  uint32_t seeds;
  uint32_t classes;
  uint64_t most;
  size_t n_sizes;
  kf_shots_size *sizes;
  size_t n_classifiers;
  size_t n_points;
  kf_shots_point *points;
  kf_method method;
} kf_shots;
KF_API kf_status kf_shots_new(kf_ctx *ctx, const kf_data *data, const kf_data *test,
                              const kf_text *text, const kf_shots_options *options, kf_shots **out);
KF_API void kf_shots_free(kf_shots *shots);
KF_API const kf_shots_point *kf_shots_at(const kf_shots *shots, size_t size, uint32_t seed,
                                         kf_shots_classifier classifier);
typedef struct kf_spread {
  double mean, low, high;
  double deviation;
  uint64_t reserved[2];
} kf_spread;
KF_API void kf_shots_spread(const kf_shots *shots, size_t size, kf_shots_classifier classifier,
                            int top5, kf_spread *out);
typedef struct kf_report_options {
  const char *title;
  const char *train_name, *test_name;
  const kf_data *test;
  const kf_truth *truth;
  const kf_model *model;
  kf_fit_options fit;
  const uint32_t *dims;
  size_t n_dims;
  const uint32_t *k;
  size_t n_k;
  const uint32_t *shots;
  size_t n_shots;
  uint32_t seeds;
  uint64_t reserved[8];
} kf_report_options;
typedef struct kf_report_result {
  uint64_t rows;
  uint64_t n_unlabelled, n_bad;
  uint32_t classes, dim_in, dim;
  double lambda, mean_eigenvalue;
  int fused;
  double alpha;
  uint64_t n, right;
  double standard_error;
  kf_eval_result eval;
  kf_eval_result eval_text, eval_fused;
  uint64_t n_compared, n_near;
  int many_near;
  uint64_t reserved[5];
} kf_report_result;
KF_API kf_status kf_report_write(kf_ctx *ctx, const kf_data *train,
                                 const kf_report_options *options, const char *path,
                                 kf_report_result *out);
typedef struct kf_search_page_options {
  const char *title;
  const char *name;
  const char *note;
  const char *pictures;
  kf_switch thumbnails;
  uint64_t queries;
  uint64_t reserved[8];
} kf_search_page_options;
typedef struct kf_search_page_result {
  uint64_t thumbnails;
  uint64_t bytes;
  uint64_t reserved[4];
} kf_search_page_result;
KF_API kf_status kf_search_page_write(kf_ctx *ctx, const kf_gallery *gallery,
                                      const char *const *queries, uint64_t n, uint32_t k,
                                      const int64_t *rows, const double *scores,
                                      const kf_search_page_options *options, const char *path,
                                      kf_search_page_result *out);
#endif
