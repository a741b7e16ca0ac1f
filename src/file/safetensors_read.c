/* safetensors_read.c - the header of a .safetensors file.
 *
 *   bytes 0-7   N, the length of the header, uint64
 *   then        the header, N bytes of JSON: {"__metadata__": {"key": "value", …},
 *               "name": {"dtype": "F32", "shape": [100, 512], "data_offsets": [0, 204800]}, …}
 *   then        the data; offsets count from here
 *
 * Tensors must cover the data without gaps or overlaps, so no bytes can hide in a file and no
 * tensor can be read through another. No size in the header controls how much memory is allocated:
 * a header of n bytes takes n bytes and at most 128 MiB more, for a million JSON values (some
 * 130,000 tensors). */
#include "file/file_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- one tensor ---------------------------------------------------------------------------- */

/* A name from the file, cut for messages. */
#define NAME "'%.64s'"

typedef struct element {
  const char *name;
  kf_type type;
  uint32_t bits;
} element;

/* The first ones are in the order of kf_type. */
static const element known[] = {
    {"F16", KF_TYPE_F16, 16},      {"BF16", KF_TYPE_BF16, 16},    {"F32", KF_TYPE_F32, 32},
    {"F64", KF_TYPE_F64, 64},      {"I8", KF_TYPE_I8, 8},         {"I16", KF_TYPE_I16, 16},
    {"I32", KF_TYPE_I32, 32},      {"I64", KF_TYPE_I64, 64},      {"U8", KF_TYPE_U8, 8},
    {"U16", KF_TYPE_U16, 16},      {"U32", KF_TYPE_U32, 32},      {"U64", KF_TYPE_U64, 64},
    {"BOOL", KF_TYPE_OTHER, 8},    {"F8_E4M3", KF_TYPE_OTHER, 8}, {"F8_E5M2", KF_TYPE_OTHER, 8},
    {"F8_E8M0", KF_TYPE_OTHER, 8}, {"F6_E2M3", KF_TYPE_OTHER, 6}, {"F6_E3M2", KF_TYPE_OTHER, 6},
    {"F4", KF_TYPE_OTHER, 4},      {"C64", KF_TYPE_OTHER, 64}};

const char *kf_st_type_name(kf_type type) { return known[type].name; }
size_t kf_type_size(kf_type type) { return type < KF_TYPE_OTHER ? known[type].bits / 8 : 0; }

static const element *find_element(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(name, known[i].name) == 0) return &known[i];
  return NULL;
}

/* Reads a list of at most `most` whole numbers >= 0. */
static bool read_sizes(const kf_json_doc *doc, const kf_json *list, uint32_t most, uint64_t *out,
                       uint32_t *n) {
  if (list == NULL || list->kind != KF_JSON_LIST || list->count > most) return false;
  *n = 0;
  for (const kf_json *item = kf_json_first(doc, list); item != NULL;
       item = kf_json_next(doc, item)) {
    int64_t size;
    if (!kf_json_i64(item, &size) || size < 0) return false;
    out[(*n)++] = (uint64_t)size;
  }
  return true;
}

/* The size of a shape in bytes; false if it overflows or is not a whole number. */
static bool shape_bytes(const kf_st_tensor *tensor, uint32_t bits, uint64_t *bytes) {
  uint64_t total = bits;
  for (uint32_t i = 0; i < tensor->ndim; i++)
    if (!kf_mul_u64(total, tensor->shape[i], &total)) return false;
  *bytes = total / 8;
  return total % 8 == 0;
}

/* Reads a tensor; its offset still counts from the beginning of the data. */
static kf_status read_tensor(kf_st_tensor *tensor, const char *path, const kf_json_doc *doc,
                             const kf_json *entry, uint64_t data_size, kf_err *err) {
  const char *name = entry->key;
  const char *type_name = kf_json_string(kf_json_get(doc, entry, "dtype"));
  if (type_name == NULL) return kf_fail_file(err, path, "tensor " NAME " has no dtype", name);
  const element *type = find_element(type_name);
  if (type == NULL)
    return kf_fail_file(err, path, "tensor " NAME " has the unknown dtype '%.20s'", name,
                        type_name);
  tensor->name = name;
  tensor->type = type->type;
  tensor->type_name = type->name;
  if (!read_sizes(doc, kf_json_get(doc, entry, "shape"), 8, tensor->shape, &tensor->ndim))
    return kf_fail_file(err, path, "the shape of tensor " NAME " is not a list of at most 8 sizes",
                        name);
  uint64_t offsets[2];
  uint32_t n;
  if (!read_sizes(doc, kf_json_get(doc, entry, "data_offsets"), 2, offsets, &n) || n != 2 ||
      offsets[0] > offsets[1]) {
    return kf_fail_file(err, path, "the data_offsets of tensor " NAME " are not two rising numbers",
                        name);
  }
  if (offsets[1] > data_size)
    return kf_fail_file(err, path,
                        "the file is truncated: tensor " NAME " ends at data byte %" PRIu64
                        ", but there are only %" PRIu64,
                        name, offsets[1], data_size);
  uint64_t bytes;
  if (!shape_bytes(tensor, type->bits, &bytes))
    return kf_fail_file(
        err, path, "the size of tensor " NAME " overflows or is not a whole number of bytes", name);
  tensor->offset = offsets[0];
  tensor->bytes = offsets[1] - offsets[0];
  if (tensor->bytes == bytes) return KF_OK;
  return kf_fail_file(err, path,
                      "the shape of tensor " NAME " needs %" PRIu64
                      " bytes, but its data_offsets span %" PRIu64,
                      name, bytes, tensor->bytes);
}

/* --- all tensors --------------------------------------------------------------------------- */

/* Empty tensors precede the tensor that begins at the same byte. */
static int by_offset(const void *a, const void *b) {
  const kf_st_tensor *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static kf_status check_tiling(const kf_st *st, uint64_t data_size, kf_err *err) {
  uint64_t end = 0;
  const char *before = NULL;
  for (size_t i = 0; i < st->n_tensors; i++) {
    const kf_st_tensor *tensor = &st->tensors[i];
    if (tensor->offset < end)
      return kf_fail_file(err, st->in.path, "tensors " NAME " and " NAME " overlap", before,
                          tensor->name);
    if (tensor->offset > end)
      return kf_fail_file(err, st->in.path,
                          "%" PRIu64 " data bytes before tensor " NAME
                          " belong to no tensor (a gap)",
                          tensor->offset - end, tensor->name);
    end += tensor->bytes;
    before = tensor->name;
  }
  if (end == data_size) return KF_OK;
  return kf_fail_file(err, st->in.path,
                      "%" PRIu64 " trailing bytes at the end of the file belong to no tensor",
                      data_size - end);
}

static kf_status read_tensors(kf_st *st, const kf_json_doc *doc, uint64_t data_offset,
                              kf_err *err) {
  uint64_t data_size = st->in.size - data_offset;
  const kf_json *root = &doc->nodes[0];
  KF_TAKE_ZERO(&st->arena, st->tensors, root->count);
  if (st->arena.failed) return kf_fail_memory(err);
  for (const kf_json *entry = kf_json_first(doc, root); entry != NULL;
       entry = kf_json_next(doc, entry)) {
    if (strcmp(entry->key, "__metadata__") == 0) continue;
    KF_TRY(read_tensor(&st->tensors[st->n_tensors], st->in.path, doc, entry, data_size, err));
    st->n_tensors++;
  }
  qsort(st->tensors, st->n_tensors, sizeof *st->tensors, by_offset);
  KF_TRY(check_tiling(st, data_size, err));
  for (size_t i = 0; i < st->n_tensors; i++) st->tensors[i].offset += data_offset;
  return KF_OK;
}

/* --- metadata ------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b) {
  return strcmp((*(const kf_json *const *)a)->key, (*(const kf_json *const *)b)->key);
}

/* Stores the members, which must be strings, sorted by key. */
static kf_status take_metadata(kf_st *st, const kf_json **members, size_t n, kf_err *err) {
  qsort(members, n, sizeof *members, by_key);
  for (size_t i = 0; i < n; i++) {
    st->keys[i] = members[i]->key;
    st->values[i] = kf_json_string(members[i]);
    if (st->values[i] == NULL)
      return kf_fail_file(err, st->in.path, "metadata " NAME " is not a string", st->keys[i]);
  }
  st->n_meta = n;
  return KF_OK;
}

static kf_status read_metadata(kf_st *st, const kf_json_doc *doc, kf_err *err) {
  const kf_json *metadata = kf_json_get(doc, &doc->nodes[0], "__metadata__");
  if (metadata == NULL) return KF_OK;
  if (metadata->kind != KF_JSON_OBJECT)
    return kf_fail_file(err, st->in.path, "__metadata__ is not a JSON object");
  size_t n = metadata->count, i = 0;
  const kf_json **members;
  KF_TAKE(&st->arena, members, n);
  KF_TAKE(&st->arena, st->keys, n);
  KF_TAKE(&st->arena, st->values, n);
  if (st->arena.failed) return kf_fail_memory(err);
  for (const kf_json *member = kf_json_first(doc, metadata); member != NULL;
       member = kf_json_next(doc, member))
    members[i++] = member;
  return take_metadata(st, members, n, err);
}

/* The offset of the digits of metadata "checksum", spelt as koofu writes it, first in the metadata.
 * A key that ends in the same letters may be mistaken for it; the file is then refused as
 * damaged. */
static uint64_t find_checksum(const char *text, size_t length) {
  static const char key[] = "\"checksum\":\"";
  const char *at = memmem(text, length, key, sizeof key - 1);
  if (at == NULL) return 0;
  at += sizeof key - 1;
  if ((size_t)(text + length - at) < 17 || at[16] != '"') return 0;
  return 8 + (uint64_t)(at - text);
}

/* --- the file ------------------------------------------------------------------------------ */

/* Takes ownership of the text. */
static kf_status read_header(kf_st *st, char *text, uint64_t length, kf_err *err) {
  char what[KF_WHERE_SIZE];
  snprintf(what, sizeof what, "%.4200s: the header", st->in.path);
  kf_json_doc doc;
  st->checksum_offset = find_checksum(text, length);
  KF_TRY(kf_json_take(&doc, text, length, KF_JSON_VALUES, what, err));
  kf_status status = doc.nodes[0].kind == KF_JSON_OBJECT
                         ? read_metadata(st, &doc, err)
                         : kf_fail(err, KF_ERR_DATA, "%s is not a JSON object", what);
  if (status == KF_OK) status = read_tensors(st, &doc, 8 + length, err);
  st->text = doc.text; /* names point into it */
  doc.text = NULL;
  kf_json_clear(&doc);
  return status;
}

static kf_status read_file(kf_st *st, kf_err *err) {
  uint64_t length;
  if (st->in.size < sizeof length)
    return kf_fail_file(err, st->in.path,
                        "the file has %" PRIu64 " bytes, too few for a .safetensors", st->in.size);
  KF_TRY(kf_in_read(&st->in, 0, &length, sizeof length, err));
  if (memcmp(&length, "version ", sizeof length) == 0 && st->in.size < 1024)
    return kf_fail_file(err, st->in.path,
                        "is a Git LFS pointer, not the file itself; fetch it with 'git lfs pull'");
  if (length > KF_HEADER_CAP)
    return kf_fail_file(err, st->in.path,
                        "the header says it has %" PRIu64 " bytes, more than the limit of %u",
                        length, KF_HEADER_CAP);
  if (length > st->in.size - sizeof length)
    return kf_fail_file(err, st->in.path,
                        "the header of %" PRIu64
                        " bytes goes past the end of the file, which has %" PRIu64,
                        length, st->in.size);
  char *text = kf_alloc(length + 1, 1);
  if (text == NULL) return kf_fail_memory(err);
  text[length] = '\0';
  kf_status status = kf_in_read(&st->in, 8, text, length, err);
  if (status == KF_OK) return read_header(st, text, length, err);
  kf_free(text);
  return status;
}

kf_status kf_st_open(kf_st *st, const char *path, kf_err *err) {
  kf_format format;
  KF_TRY(kf_format_of_file(path, &format, err));
  if (format != KF_FORMAT_SAFETENSORS) {
    kf_in in; /* report first if it cannot be opened */
    KF_TRY(kf_in_open(&in, path, err));
    kf_in_close(&in);
    return kf_fail_file(err, path, "is not a .safetensors file");
  }
  *st = (kf_st){0};
  KF_TRY(kf_in_open(&st->in, path, err));
  kf_status status = read_file(st, err);
  if (status != KF_OK) kf_st_close(st);
  return status;
}

kf_status kf_st_open_memory(kf_st *st, const void *bytes, uint64_t n, kf_err *err) {
  *st = (kf_st){0};
  KF_TRY(kf_in_open_memory(&st->in, bytes, n, err));
  kf_status status = read_file(st, err);
  if (status != KF_OK) kf_st_close(st);
  return status;
}

void kf_st_close(kf_st *st) {
  kf_in_close(&st->in);
  kf_arena_free(&st->arena);
  kf_free(st->text);
  *st = (kf_st){0};
}
