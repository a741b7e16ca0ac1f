/* npy.c - NumPy arrays.
 *
 *   bytes 0-5   \x93 N U M P Y
 *   bytes 6-7   version: 1.0, 2.0 or 3.0
 *   then        the length of the header, uint16 (version 1) or uint32 (2 and 3)
 *   then        the header, a Python dict such as
 *               {'descr': '<f4', 'fortran_order': False, 'shape': (100, 512), }
 *               padded with spaces and closed by a newline
 *   then        the elements, to the end of the file
 *
 * The dict is read by a parser for exactly these three keys; nothing is evaluated. Arrays of Python
 * objects are pickles, which run code when they are loaded, and are refused. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_CAP = 1 << 20 };

/* --- the dict -------------------------------------------------------------------------------- */

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
    bool comma = accept(p, ',');
    if (comma) continue;
    /* (n) is a number in Python, not a shape */
    if (npy->ndim < 2 || !accept(p, ')')) return expected(p, "',' or ')'");
    return KF_OK;
  }
  return KF_OK;
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
    memcpy(npy->type_name, known[i].name, 4);
    return KF_OK;
  }
  if (strchr(name, 'O') != NULL)
    return kf_fail_file(p->err, p->path,
                        "the array holds Python objects, which koofu does not load (save floats, "
                        "or strings in a text file)");
  if (name[0] == '>')
    return kf_fail_file(p->err, p->path,
                        "dtype '%s' is big-endian; convert it in numpy with a.astype('<%s')", name,
                        name + 1);
  return kf_fail_file(
      p->err, p->path,
      "dtype '%s' is not supported; use f2, f4 or f8 for rows, integers for labels, "
      "and a text file for strings",
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

/* --- the file -------------------------------------------------------------------------------- */

/* The length of the header and, in npy->offset, where it begins. */
static kf_status read_preamble(kf_npy *npy, uint64_t *length, kf_err *err) {
  const char *path = npy->in.path;
  unsigned char bytes[12] = {0};
  uint64_t n = npy->in.size < sizeof bytes ? npy->in.size : sizeof bytes;
  KF_TRY(kf_in_read(&npy->in, 0, bytes, n, err));
  if (memcmp(bytes, "\x93NUMPY", 6) != 0)
    return kf_fail_file(err, path, "the file does not begin like a .npy");
  if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
    return kf_fail_file(err, path, "npy version %d.%d is not 1.0, 2.0 or 3.0", bytes[6], bytes[7]);
  npy->offset = bytes[6] == 1 ? 10 : 12;
  *length = bytes[8] | (uint64_t)bytes[9] << 8;
  if (bytes[6] > 1) *length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
  if (npy->in.size < npy->offset || *length > npy->in.size - npy->offset)
    return kf_fail_file(err, path,
                        "the npy header of %" PRIu64
                        " bytes goes past the end of the file, which has %" PRIu64,
                        *length, npy->in.size);
  if (*length > HEADER_CAP)
    return kf_fail_file(err, path, "the npy header has %" PRIu64 " bytes, more than %d", *length,
                        HEADER_CAP);
  return KF_OK;
}

static kf_status read_dict(kf_npy *npy, uint64_t length, kf_err *err) {
  char *text = kf_alloc(length + 1, 1); /* messages quote it as a string */
  if (text == NULL) return kf_fail_memory(err);
  kf_status status = kf_in_read(&npy->in, npy->offset, text, length, err);
  if (status == KF_OK) {
    text[length] = '\0';
    parser p = {.path = npy->in.path, .at = text, .end = text + length, .err = err};
    status = parse_dict(&p, npy);
  }
  kf_free(text);
  return status;
}

/* The elements must fill the rest of the file. */
static kf_status check_size(const kf_npy *npy, kf_err *err) {
  uint64_t bytes = kf_type_size(npy->type);
  for (uint32_t i = 0; i < npy->ndim; i++) {
    if (!kf_mul_u64(bytes, npy->shape[i], &bytes))
      return kf_fail_file(err, npy->in.path, "the size of the array overflows 64 bits");
  }
  uint64_t actual = npy->in.size - npy->offset;
  if (bytes == actual) return KF_OK;
  return kf_fail_file(err, npy->in.path,
                      "the array is %s: its shape needs %" PRIu64
                      " bytes after the header, but there are %" PRIu64,
                      bytes > actual ? "cut short" : "followed by other bytes", bytes, actual);
}

static kf_status read_header(kf_npy *npy, kf_err *err) {
  uint64_t length = 0;
  KF_TRY(read_preamble(npy, &length, err));
  KF_TRY(read_dict(npy, length, err));
  npy->offset += length;
  return check_size(npy, err);
}

kf_status kf_npy_open(kf_npy *npy, const char *path, kf_err *err) {
  *npy = (kf_npy){0};
  KF_TRY(kf_in_open(&npy->in, path, err));
  kf_status status = read_header(npy, err);
  if (status != KF_OK) kf_npy_close(npy);
  return status;
}

void kf_npy_close(kf_npy *npy) { kf_in_close(&npy->in); }

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
