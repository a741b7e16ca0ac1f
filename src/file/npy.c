/* npy.c - NumPy arrays.
 *
 *   bytes 0-5   \x93 N U M P Y
 *   bytes 6-7   version: 1.0, 2.0 or 3.0
 *   then        the length of the header, uint16 (version 1) or uint32 (2 and 3)
 *   then        the header, a Python dict such as
 *               {'descr': '<f4', 'fortran_order': False, 'shape': (100, 512), }
 *               padded with spaces and ended by a newline
 *   then        the elements, to the end of the file
 *
 * The dict is read by a parser for exactly these three keys; nothing is evaluated. Arrays of Python
 * objects are pickles, which run code when they are loaded, so they are refused. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

/* --- the dict ------------------------------------------------------------------------------ */

typedef struct parser {
  const char *path;
  const char *at, *end;
  kf_err *err;
} parser;

static kf_status expected(const parser *p, const char *what) {
  if (p->at == p->end)
    return kf_fail_file(p->err, p->path, "the npy header ends where %s is expected", what);
  return kf_fail_file(p->err, p->path, "the npy header has '%.20s' where %s is expected", p->at,
                      what);
}

static void skip_space(parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t')) p->at++;
}

/* Takes a character if it comes next. */
static bool accept(parser *p, char c) {
  skip_space(p);
  if (p->at == p->end || *p->at != c) return false;
  p->at++;
  return true;
}

static bool accept_word(parser *p, const char *word) {
  size_t n = strlen(word);
  skip_space(p);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) return false;
  p->at += n;
  return true;
}

/* 'text' or "text", without escapes. */
static kf_status parse_string(parser *p, const char *what, char *text, size_t size) {
  skip_space(p);
  if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) return expected(p, what);
  const char *begin = p->at + 1;
  const char *close = memchr(begin, *p->at, (size_t)(p->end - begin));
  if (close == NULL || (size_t)(close - begin) >= size) return expected(p, what);
  memcpy(text, begin, (size_t)(close - begin));
  text[close - begin] = '\0';
  p->at = close + 1;
  return KF_OK;
}

static kf_status parse_size(parser *p, uint64_t *out) {
  skip_space(p);
  if (p->at < p->end && *p->at == '-')
    return kf_fail_file(p->err, p->path, "the shape in the npy header has a negative size");
  const char *begin = p->at;
  *out = 0;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
    if (!kf_mul_u64(*out, 10, out) || !kf_add_u64(*out, (uint64_t)(*p->at - '0'), out))
      return kf_fail_file(p->err, p->path, "a size in the npy header does not fit 64 bits");
  }
  return p->at == begin ? expected(p, "a size") : KF_OK;
}

/* (), (n,), (n, d), … */
static kf_status parse_shape(parser *p, kf_npy *npy) {
  if (!accept(p, '(')) return expected(p, "a shape");
  npy->ndim = 0;
  while (!accept(p, ')')) {
    if (npy->ndim == 8)
      return kf_fail_file(p->err, p->path, "the array has more than 8 dimensions");
    KF_TRY(parse_size(p, &npy->shape[npy->ndim++]));
    if (accept(p, ',')) continue;
    /* (n) is a number in Python, not a shape */
    if (npy->ndim < 2 || !accept(p, ')')) return expected(p, "',' or ')'");
    return KF_OK;
  }
  return KF_OK;
}

/* "<U5" or "|S5": strings of at most 5 UTF-32 characters or bytes, padded with zeros. */
static bool parse_string_type(const char *name, kf_npy *npy) {
  bool wide = kf_starts_with(name, "<U");
  if (!wide && !kf_starts_with(name, "|S")) return false;
  uint32_t n = 0;
  for (const char *digit = name + 2; *digit != '\0'; digit++) {
    if (*digit < '0' || *digit > '9' || n >= 100000000) return false;
    n = 10 * n + (uint32_t)(*digit - '0');
  }
  if (name[2] == '\0') return false;
  npy->type = KF_TYPE_OTHER;
  npy->wide = wide;
  npy->item = wide ? 4 * n : n;
  snprintf(npy->type_name, sizeof npy->type_name, "%.23s", name);
  return true;
}

static kf_status parse_type(parser *p, kf_npy *npy) {
  static const struct {
    const char *name;
    kf_type type;
  } known[] = {{"<f2", KF_TYPE_F16}, {"<f4", KF_TYPE_F32}, {"<f8", KF_TYPE_F64},
               {"|i1", KF_TYPE_I8},  {"<i2", KF_TYPE_I16}, {"<i4", KF_TYPE_I32},
               {"<i8", KF_TYPE_I64}, {"|u1", KF_TYPE_U8},  {"<u2", KF_TYPE_U16},
               {"<u4", KF_TYPE_U32}, {"<u8", KF_TYPE_U64}};
  char name[64];
  if (accept(p, '['))
    return kf_fail_file(p->err, p->path,
                        "the array has a structured dtype, which koofu does not read");
  KF_TRY(parse_string(p, "a dtype", name, sizeof name));
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    npy->type = known[i].type;
    npy->item = (uint32_t)kf_type_size(npy->type);
    memcpy(npy->type_name, known[i].name, 4);
    return KF_OK;
  }
  if (parse_string_type(name, npy)) return KF_OK;
  if (strchr(name, 'O') != NULL)
    return kf_fail_file(
        p->err, p->path,
        "the array holds Python objects, which koofu does not load (numpy, for strings: "
        "y.astype(str))");
  if (name[0] == '>')
    return kf_fail_file(p->err, p->path,
                        "dtype '%s' is big-endian; convert it in numpy with a.astype('<%s')", name,
                        name + 1);
  return kf_fail_file(
      p->err, p->path,
      "dtype '%s' is not supported; use f2, f4 or f8 for rows, integers or strings for labels",
      name);
}

static kf_status parse_order(parser *p, kf_npy *npy) {
  npy->fortran = accept_word(p, "True");
  return npy->fortran || accept_word(p, "False") ? KF_OK : expected(p, "True or False");
}

static kf_status parse_entry(parser *p, kf_npy *npy, unsigned *seen) {
  static const struct {
    const char *key;
    kf_status (*parse)(parser *p, kf_npy *npy);
  } entries[] = {{"descr", parse_type}, {"fortran_order", parse_order}, {"shape", parse_shape}};
  char key[16];
  KF_TRY(parse_string(p, "a key", key, sizeof key));
  for (unsigned i = 0; i < 3; i++) {
    if (strcmp(key, entries[i].key) != 0) continue;
    if (*seen & 1u << i) return kf_fail_file(p->err, p->path, "the npy header has '%s' twice", key);
    *seen |= 1u << i;
    return accept(p, ':') ? entries[i].parse(p, npy) : expected(p, "':'");
  }
  return kf_fail_file(p->err, p->path, "the npy header has an unknown key '%s'", key);
}

static kf_status parse_dict(parser *p, kf_npy *npy) {
  unsigned seen = 0;
  if (!accept(p, '{')) return expected(p, "'{'");
  while (!accept(p, '}')) {
    KF_TRY(parse_entry(p, npy, &seen));
    if (accept(p, ',')) continue;
    if (!accept(p, '}')) return expected(p, "',' or '}'");
    break;
  }
  skip_space(p);
  if (p->at != p->end) return expected(p, "its end");
  if (seen == 7) return KF_OK;
  return kf_fail_file(p->err, p->path, "the npy header lacks '%s'",
                      !(seen & 1)   ? "descr"
                      : !(seen & 2) ? "fortran_order"
                                    : "shape");
}

/* --- the file ------------------------------------------------------------------------------ */

/* Reads the length of the header and, to npy->offset, where it begins. */
static kf_status parse_preamble(kf_npy *npy, const char *path, const unsigned char bytes[12],
                                uint64_t size, uint64_t *length, kf_err *err) {
  if (memcmp(bytes, "\x93NUMPY", 6) != 0)
    return kf_fail_file(err, path, "the file does not begin like a .npy");
  if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
    return kf_fail_file(err, path, "npy version %d.%d is not 1.0, 2.0 or 3.0", bytes[6], bytes[7]);
  npy->offset = bytes[6] == 1 ? 10 : 12;
  *length = bytes[8] | (uint64_t)bytes[9] << 8;
  if (bytes[6] > 1) *length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
  if (size < npy->offset || *length > size - npy->offset)
    return kf_fail_file(err, path,
                        "the npy header of %" PRIu64
                        " bytes goes past the end of the file, which has %" PRIu64,
                        *length, size);
  if (*length > KF_NPY_HEADER_CAP)
    return kf_fail_file(err, path, "the npy header has %" PRIu64 " bytes, more than %d", *length,
                        KF_NPY_HEADER_CAP);
  return KF_OK;
}

/* The elements must fill the rest of the file exactly. */
static kf_status check_size(const kf_npy *npy, const char *path, uint64_t size, kf_err *err) {
  uint64_t bytes = npy->item;
  for (uint32_t i = 0; i < npy->ndim; i++) {
    if (!kf_mul_u64(bytes, npy->shape[i], &bytes))
      return kf_fail_file(err, path, "the size of the array overflows 64 bits");
  }
  uint64_t actual = size - npy->offset;
  if (bytes == actual) return KF_OK;
  return kf_fail_file(err, path,
                      "the array is %s: its shape needs %" PRIu64
                      " bytes after the header, but there are %" PRIu64,
                      bytes > actual ? "cut short" : "followed by other bytes", bytes, actual);
}

kf_status kf_npy_parse(kf_npy *npy, const char *path, const unsigned char *bytes, uint64_t n,
                       uint64_t size, kf_err *err) {
  *npy = (kf_npy){.in.fd = -1};
  unsigned char preamble[12] = {0};
  memcpy(preamble, bytes, n < sizeof preamble ? (size_t)n : sizeof preamble);
  uint64_t length = 0;
  KF_TRY(parse_preamble(npy, path, preamble, size, &length, err));
  if (n < npy->offset || length > n - npy->offset) /* n is smaller if a member ends early */
    return kf_fail_file(err, path, "the npy header of %" PRIu64 " bytes is too long", length);
  char *text = kf_alloc(length + 1, 1);
  if (text == NULL) return kf_fail_memory(err);
  memcpy(text, bytes + npy->offset, length);
  text[length] = '\0'; /* messages quote the rest of the header */
  parser p = {.path = path, .at = text, .end = text + length, .err = err};
  kf_status status = parse_dict(&p, npy);
  npy->offset += length;
  if (status == KF_OK) status = check_size(npy, path, size, err);
  kf_free(text);
  return status;
}

static kf_status read_header(kf_npy *npy, const kf_in *in, kf_err *err) {
  unsigned char preamble[12] = {0};
  uint64_t length = 0;
  KF_TRY(kf_in_read(in, 0, preamble, in->size < sizeof preamble ? in->size : sizeof preamble, err));
  KF_TRY(parse_preamble(npy, in->path, preamble, in->size, &length, err));
  uint64_t n = npy->offset + length;
  unsigned char *bytes = kf_alloc(n, 1);
  if (bytes == NULL) return kf_fail_memory(err);
  kf_status status = kf_in_read(in, 0, bytes, n, err);
  if (status == KF_OK) status = kf_npy_parse(npy, in->path, bytes, n, in->size, err);
  kf_free(bytes);
  return status;
}

kf_status kf_npy_open_in(kf_npy *npy, kf_in *in, kf_err *err) {
  *npy = (kf_npy){.in.fd = -1};
  kf_status status = read_header(npy, in, err);
  if (status == KF_OK)
    npy->in = *in;
  else
    kf_in_close(in);
  *in = (kf_in){.fd = -1};
  return status;
}

kf_status kf_npy_open(kf_npy *npy, const char *path, kf_err *err) {
  *npy = (kf_npy){.in.fd = -1};
  kf_in in;
  KF_TRY(kf_in_open(&in, path, err));
  return kf_npy_open_in(npy, &in, err);
}

bool kf_npy_is_labels(const kf_npy *npy) {
  bool list = npy->ndim == 1 || (npy->ndim == 2 && npy->shape[1] == 1);
  return list && (kf_type_is_integer(npy->type) || npy->type == KF_TYPE_OTHER);
}

kf_status kf_npy_write_header(kf_out *out, kf_type type, uint64_t rows, uint64_t dim, kf_err *err) {
  enum { PREAMBLE = 10, HEADER = 128 }; /* a multiple of 64 that holds any shape */
  char header[HEADER + 1] = "\x93NUMPY\x01";
  header[8] = HEADER - PREAMBLE;
  int n =
      snprintf(header + PREAMBLE, sizeof header - PREAMBLE,
               "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }",
               kf_type_size(type), rows, dim);
  memset(header + PREAMBLE + n, ' ', (size_t)(HEADER - PREAMBLE - n - 1));
  header[HEADER - 1] = '\n';
  return kf_out_write(out, header, HEADER, err);
}
