/* source.c - a model as C99 code for devices, without any library: map, scores, the nearest class
 * and probabilities.
 *
 * FILE.h holds all of it as static functions. FILE.c has the same functions with external linkage,
 * and a FILE.h that declares them. Numbers are written in hexadecimal with a power of two, so no
 * digit is lost and the locale does not matter. The code has its own square root and exponential,
 * since those of the C library need libm on most systems. */
#include "export/export.h"

#include <math.h>
#include <string.h>

enum { MAX_PREFIX = 48, MAX_NAME = 4000 }; /* bytes; C99 guarantees strings of 4095 */

typedef struct source {
  kf_ctx *ctx;
  const kf_head *head;
  kf_out out;
  kf_string text;             /* not written yet */
  const char *linkage;        /* "static inline ", or "" */
  char lower[MAX_PREFIX + 1]; /* the prefix of all names */
  char upper[MAX_PREFIX + 1]; /* the same in capitals */
  kf_status status;           /* the first failure; nothing is written after it */
} source;

/* --- text ------------------------------------------------------------------------------------- */

static void flush(source *s) {
  kf_err *err = &s->ctx->err;
  if (s->status == KF_OK && s->text.failed) s->status = kf_fail_memory(err);
  if (s->status == KF_OK && s->text.n > 0)
    s->status = kf_out_write(&s->out, s->text.data, s->text.n, err);
  s->text.n = 0;
}

/* Adds code, in which '@' stands for the prefix of names, '$' for the prefix in capitals and '~'
 * for the linkage of a function. */
static void put(source *s, const char *code) {
  for (const char *c = code; *c != '\0'; c++) {
    const char *word = *c == '@' ? s->lower : *c == '$' ? s->upper : *c == '~' ? s->linkage : NULL;
    kf_string_add(&s->text, word != NULL ? word : c, word != NULL ? strlen(word) : 1);
  }
  if (s->text.n > 1 << 16) flush(s);
}

/* A finite number, exactly, as a hexadecimal constant of C99. */
static void put_real(source *s, double value, const char *ending) {
  int power;
  double mantissa = ldexp(fabs(frexp(value, &power)), 53);
  uint64_t digits = (uint64_t)mantissa;
  for (power -= 53; digits != 0 && digits % 2 == 0; power++) digits /= 2;
  if (digits == 0) power = 0;
  kf_string_addf(&s->text, "%s0x%llxp%d%s", value < 0 ? "-" : "", (unsigned long long)digits, power,
                 ending);
}

/* An array of n floats or, if `floats` is NULL, of n doubles. */
static void put_numbers(source *s, const char *name, uint64_t n, const float *floats,
                        const double *doubles) {
  bool single = floats != NULL;
  put(s, single ? "\nstatic const float @_" : "\nstatic const double @_");
  kf_string_addf(&s->text, "%s[%llu] = {", name, (unsigned long long)n);
  for (uint64_t i = 0; i < n; i++) {
    put(s, i % (single ? 6 : 4) == 0 ? "\n    " : " ");
    put_real(s, single ? (double)floats[i] : doubles[i], single ? "f," : ",");
  }
  put(s, "\n};\n");
}

static void put_define(source *s, const char *name, uint64_t value) {
  put(s, "#define $_");
  kf_string_addf(&s->text, "%s %llu\n", name, (unsigned long long)value);
}

/* A string literal. Escapes all but printable ASCII in octal, and question marks, which may begin
 * trigraphs. */
static void put_string(source *s, const char *text) {
  kf_string_add(&s->text, "\"", 1);
  for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
    if (*c < ' ' || *c > '~' || strchr("\"\\?", *c) != NULL)
      kf_string_addf(&s->text, "\\%03o", *c);
    else
      kf_string_add(&s->text, (const char *)c, 1);
  kf_string_add(&s->text, "\"", 1);
}

/* --- declarations ---------------------------------------------------------------------- */

static void put_constants(source *s) {
  const kf_head *h = s->head;
  const kf_model *m = h->model;
  put_define(s, "DIM_IN", h->dim_in);
  put_define(s, "DIM", h->dim_out);
  put_define(s, "CLASSES", h->n);
  if (m->reject_share > 0 && h->own) {
    put(s, "/* A row whose best score is worse belongs to none of these classes. */\n"
           "#define $_REJECT ");
    put_real(s, m->reject, "\n");
  }
}

static const char declarations[] =
    "\n"
    "/* A row of $_DIM_IN numbers to $_DIM. A row of zeros gives zeros. */\n"
    "~void @_transform(const float *row, float *mapped);\n"
    "/* The scores of a row for all classes, [$_CLASSES]. */\n"
    "~void @_scores(const float *row, float *scores);\n"
    "/* The nearest class, 0 to $_CLASSES - 1; its score goes to *score unless that is null. */\n"
    "~int @_classify(const float *row, float *score);\n"
    "/* Its name. */\n"
    "~const char *@_class_name(int number);\n";
static const char declare_probabilities[] =
    "/* The probabilities of all classes, [$_CLASSES]. */\n"
    "~void @_probabilities(const float *row, float *probabilities);\n";

static void put_comment(source *s) {
  const kf_head *h = s->head;
  put(s, "/* A classifier, made by koofu " KF_VERSION ": a linear map and the nearest prototype.\n"
         " *\n * Scores are ");
  put(s, h->distances ? "distances: smaller is nearer.\n" : "cosines: larger is nearer.\n");
  put(s,
      " * Sums are in $_REAL, which is double unless it is defined as float. The functions need\n"
      " * no library. They use memory of the stack: a few times the length of a row. */\n");
}

/* --- functions -------------------------------------------------------------------------------- */

static const char tools[] = "\n"
                            "static inline $_REAL @_root($_REAL x) {\n"
                            "  $_REAL root = (x + 1) / 2, last;\n"
                            "  if (!(x > 0)) return 0;\n"
                            "  do { /* falls until rounding ends it */\n"
                            "    last = root;\n"
                            "    root = (last + x / last) / 2;\n"
                            "  } while (root < last);\n"
                            "  return last;\n"
                            "}\n"
                            "\n"
                            "/* One over the length of n numbers; 0 for zeros. */\n"
                            "static inline $_REAL @_scale(const float *x, int n) {\n"
                            "  $_REAL sum = 0;\n"
                            "  int i;\n"
                            "  for (i = 0; i < n; i++) sum += ($_REAL)x[i] * x[i];\n"
                            "  return sum > 0 ? 1 / @_root(sum) : 0;\n"
                            "}\n";

static const char begin_map[] = "\n"
                                "static inline void @_map(const float *row, float *mapped) {\n"
                                "  const $_REAL scale = @_scale(row, $_DIM_IN)";
static const char rest_of_map[] =
    ";\n"
    "  int i, k;\n"
    "  for (i = 0; i < $_DIM; i++) {\n"
    "    const float *t = @_matrix + (long)i * $_DIM_IN;\n"
    "    $_REAL sum = 0;\n"
    "    for (k = 0; k < $_DIM_IN; k++) sum += ($_REAL)t[k] * row[k];\n";
static const char unit[] = "\n"
                           "static inline void @_unit(const float *x, int n, float *out) {\n"
                           "  const $_REAL scale = @_scale(x, n);\n"
                           "  int i;\n"
                           "  for (i = 0; i < n; i++) out[i] = (float)(x[i] * scale);\n"
                           "}\n";

static void put_map(source *s) {
  const kf_head *h = s->head;
  put(s, begin_map);
  if (!h->unit_rows) put(s, " > 0 ? 1 : 0");
  put(s, rest_of_map);
  put(s, "    mapped[i] = (float)(sum * scale");
  put(s, h->bias != NULL ? " + (scale > 0 ? ($_REAL)@_bias[i] : 0));\n  }\n}\n" : ");\n  }\n}\n");
  put(s, unit);
  put(s, "\n~void @_transform(const float *row, float *mapped) {\n  @_map(row, mapped);\n");
  put(s, h->unit_mapped ? "  @_unit(mapped, $_DIM, mapped);\n}\n" : "}\n");
}

/* Makes the query of a row, which is compared with the prototypes: [$_COLUMNS]. */
static void put_query(source *s) {
  const kf_head *h = s->head;
  const kf_prototypes *p = h->prototypes;
  put(s, "\nstatic inline void @_query(const float *row, float *query) {\n");
  if (p->part == KF_PART_FUSED) {
    put(s, "  const float alpha = ");
    put_real(s, (double)(float)h->model->alpha, "f;\n");
    put(s, "  int i;\n"
           "  @_unit(row, $_DIM_IN, query);\n"
           "  @_map(row, query + $_DIM_IN);\n"
           "  @_unit(query + $_DIM_IN, $_DIM, query + $_DIM_IN);\n"
           "  for (i = $_DIM_IN; i < $_COLUMNS; i++) query[i] *= alpha;\n");
  } else if (p->raw || p->part == KF_PART_TEXT) {
    put(s, h->unit_rows || h->unit_query
               ? "  @_unit(row, $_DIM_IN, query);\n"
               : "  int i;\n  for (i = 0; i < $_DIM_IN; i++) query[i] = row[i];\n");
  } else {
    put(s, "  @_map(row, query);\n");
    if (h->unit_query) put(s, "  @_unit(query, $_DIM, query);\n");
  }
  put(s, "}\n");
}

static void put_scores(source *s) {
  const kf_head *h = s->head;
  put(s, "\n/* Larger is nearer. */\n"
         "static inline $_REAL @_near(const float *query, int j) {\n"
         "  const float *p = @_prototypes + (long)j * $_COLUMNS;\n"
         "  $_REAL sum = 0;\n"
         "  int i;\n");
  put(s, h->distances ? "  for (i = 0; i < $_COLUMNS; i++) {\n"
                        "    $_REAL difference = ($_REAL)query[i] - p[i];\n"
                        "    sum -= difference * difference / 2;\n"
                        "  }\n"
                      : "  for (i = 0; i < $_COLUMNS; i++) sum += ($_REAL)query[i] * p[i];\n");
  put(s, h->offset != NULL ? "  return sum + ($_REAL)@_offset[j];\n}\n" : "  return sum;\n}\n");
  put(s, "\n~void @_scores(const float *row, float *scores) {\n"
         "  float query[$_COLUMNS];\n"
         "  int j;\n"
         "  @_query(row, query);\n");
  put(s,
      h->distances
          ? "  for (j = 0; j < $_CLASSES; j++) scores[j] = (float)@_root(-2 * @_near(query, j));\n"
          : "  for (j = 0; j < $_CLASSES; j++) scores[j] = (float)@_near(query, j);\n");
  put(s, "}\n"
         "\n~int @_classify(const float *row, float *score) {\n"
         "  float query[$_COLUMNS];\n"
         "  $_REAL best = 0;\n"
         "  int j, nearest = 0;\n"
         "  @_query(row, query);\n"
         "  for (j = 0; j < $_CLASSES; j++) {\n"
         "    const $_REAL near = @_near(query, j);\n"
         "    if (j > 0 && !(near > best)) continue;\n"
         "    best = near;\n"
         "    nearest = j;\n"
         "  }\n");
  put(s, h->distances ? "  if (score) *score = (float)@_root(-2 * best);\n"
                      : "  if (score) *score = (float)best;\n");
  put(s, "  return nearest;\n}\n");
}

static void put_probabilities(source *s) {
  put(s, "\n/* Of a number that is not above 0. */\n"
         "static inline $_REAL @_exp($_REAL x) {\n"
         "  $_REAL sum = 1, term = 1;\n"
         "  int i, halvings = 0;\n"
         "  if (x < -80) return 0;\n"
         "  for (; x < -0.5; halvings++) x /= 2;\n"
         "  for (i = 1; i < 16; i++) sum += term *= x / i;\n"
         "  while (halvings-- > 0) sum *= sum;\n"
         "  return sum;\n"
         "}\n"
         "\n~void @_probabilities(const float *row, float *probabilities) {\n"
         "  const $_REAL temperature = ($_REAL)");
  put_real(s, s->head->temperature, ";\n");
  put(s, "  float query[$_COLUMNS];\n"
         "  $_REAL best = 0, sum = 0;\n"
         "  int j;\n"
         "  @_query(row, query);\n"
         "  for (j = 0; j < $_CLASSES; j++) {\n"
         "    const $_REAL near = @_near(query, j);\n"
         "    if (j == 0 || near > best) best = near;\n"
         "  }\n"
         "  for (j = 0; j < $_CLASSES; j++) {\n"
         "    const $_REAL p = @_exp(temperature * (@_near(query, j) - best));\n"
         "    probabilities[j] = (float)p;\n"
         "    sum += p;\n"
         "  }\n"
         "  for (j = 0; j < $_CLASSES; j++) probabilities[j] = (float)(probabilities[j] / sum);\n"
         "}\n");
}

static void put_names(source *s) {
  const kf_head *h = s->head;
  put(s, "\n~const char *@_class_name(int number) {\n  static const char *const names[] = {\n");
  for (uint32_t j = 0; j < h->n; j++) {
    char number[16];
    const char *name = kf_head_name(h, j, number);
    if (s->status == KF_OK && strlen(name) > MAX_NAME)
      s->status =
          kf_fail(&s->ctx->err, KF_ERR_DATA, "the name of class %d is too long for a string in C",
                  (int)h->prototypes->ids[j]);
    put(s, "      ");
    put_string(s, name);
    put(s, ",\n");
  }
  put(s, "  };\n  return number >= 0 && number < $_CLASSES ? names[number] : 0;\n}\n");
}

static void put_body(source *s) {
  const kf_head *h = s->head;
  put(s, "\n#ifndef $_REAL\n#define $_REAL double\n#endif\n");
  put_define(s, "COLUMNS", h->dim);
  put_numbers(s, "matrix", (uint64_t)h->dim_out * h->dim_in, h->transform, NULL);
  if (h->bias != NULL) put_numbers(s, "bias", h->dim_out, NULL, h->bias);
  put_numbers(s, "prototypes", (uint64_t)h->n * h->dim, h->rows, NULL);
  if (h->offset != NULL) put_numbers(s, "offset", h->n, NULL, h->offset);
  put(s, tools);
  put_map(s);
  put_query(s);
  put_scores(s);
  if (h->temperature > 0) put_probabilities(s);
  put_names(s);
}

static void put_declarations(source *s) {
  put_constants(s);
  put(s, declarations);
  if (s->head->temperature > 0) put(s, declare_probabilities);
}

/* --- the files -------------------------------------------------------------------------------- */

/* Makes the prefix: the name of the file without its extension, as a C identifier. */
static void set_words(source *s, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  size_t n = strlen(name) - 2, to = 0;
  static const char digits[] = "0123456789", capital[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                    small[] = "abcdefghijklmnopqrstuvwxyz";
  if (n == 0 || strchr(digits, name[0]) != NULL || name[0] == '_') s->lower[to++] = 'k';
  for (size_t i = 0; i < n && to < MAX_PREFIX; i++) {
    bool plain = strchr(digits, name[i]) != NULL || strchr(capital, name[i]) != NULL ||
                 strchr(small, name[i]) != NULL;
    s->lower[to++] = plain ? name[i] : '_';
  }
  for (size_t i = 0; i < to; i++) {
    const char *letter = strchr(small, s->lower[i]);
    s->upper[i] = letter != NULL ? capital[letter - small] : s->lower[i];
  }
}

/* header: with include guards; body: with the functions. */
static kf_status write_file(source *s, const char *path, bool header, bool body) {
  s->status = kf_out_open(&s->out, s->ctx, path, &s->ctx->err);
  if (s->status == KF_OK) {
    put_comment(s);
    if (header) put(s, "#ifndef $_H\n#define $_H\n\n");
    put_declarations(s);
    if (body) put_body(s);
    if (header) put(s, "\n#endif\n");
  }
  flush(s);
  if (s->status == KF_OK) s->status = kf_out_commit(&s->out, &s->ctx->err);
  kf_out_abort(&s->out);
  return s->status;
}

static kf_status write_both(source *s, const char *path) {
  size_t n = strlen(path) - 1;
  char *header = kf_strdup(path);
  if (header == NULL) return kf_fail_memory(&s->ctx->err);
  header[n] = 'h';
  kf_status status = write_file(s, path, false, true);
  if (status == KF_OK) status = write_file(s, header, true, false);
  kf_free(header);
  return status;
}

kf_status kf_export_source(kf_ctx *ctx, const kf_model *model, const kf_export_options *o,
                           const char *path) {
  kf_head head;
  bool header = kf_ends_with(path, ".h");
  source s = {.ctx = ctx, .head = &head, .linkage = header ? "static inline " : ""};
  set_words(&s, path);
  kf_status status = kf_head_make(&head, ctx, model, o);
  if (status == KF_OK) status = header ? write_file(&s, path, true, true) : write_both(&s, path);
  kf_string_clear(&s.text);
  kf_head_clear(&head);
  return status;
}
