/* columns.c - tables with a column for each dimension: which columns these are, and their list in
 * messages.
 *
 * Such columns are numbered without a gap, from 0 or 1: "0", "1", … as pandas names them, or
 * "emb_0", "emb_1", …; other columns may stand beside them. Without numbers, every column other
 * than labels and ids must be a number: one that is not shows that the table holds other things. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const kf_usual_labels[] = {KF_TENSOR_LABELS, "label", NULL};
const char *const kf_usual_ids[] = {"id", "ids", "key", NULL};

/* A column "STEM7". */
typedef struct numbered {
  const char *name;
  size_t stem; /* length */
  uint64_t number;
  size_t at; /* index of the column */
} numbered;

static bool split(const char *name, numbered *out) {
  size_t n = name != NULL ? strlen(name) : 0, stem = n;
  while (stem > 0 && name[stem - 1] >= '0' && name[stem - 1] <= '9') stem--;
  *out = (numbered){.name = name, .stem = stem};
  if (stem == n || n - stem > 9) return false;
  for (size_t i = stem; i < n; i++) out->number = 10 * out->number + (uint64_t)(name[i] - '0');
  return true;
}

static int compare_stems(const numbered *a, const numbered *b) {
  size_t n = a->stem < b->stem ? a->stem : b->stem;
  int order = n > 0 ? memcmp(a->name, b->name, n) : 0;
  return order != 0 ? order : (a->stem > b->stem) - (a->stem < b->stem);
}

static int by_number(const void *x, const void *y) {
  const numbered *a = x, *b = y;
  int order = compare_stems(a, b);
  if (order != 0) return order;
  return a->number != b->number ? (a->number > b->number ? 1 : -1)
                                : (a->at > b->at) - (a->at < b->at);
}

/* --- messages ------------------------------------------------------------------------------ */

/* 1 or -1 if the next column has the next number or the one before; otherwise 0. */
static int step(const kf_table_column *column) {
  numbered a, b;
  bool same = split(column[0].name, &a) && split(column[1].name, &b) &&
              compare_stems(&a, &b) == 0 && strcmp(column[0].type, column[1].type) == 0;
  if (!same || (a.number + 1 != b.number && b.number + 1 != a.number)) return 0;
  return b.number > a.number ? 1 : -1;
}

void kf_list_columns(const kf_table_column *columns, size_t n, kf_string *list) {
  enum { LISTED = 40 };
  size_t entries = 0;
  for (size_t i = 0, last; i < n; i = last + 1, entries++) {
    int way = i + 1 < n ? step(&columns[i]) : 0;
    for (last = i; way != 0 && last + 1 < n && step(&columns[last]) == way;) last++;
    if (last == i + 1) last = i;
    if (entries == LISTED) {
      kf_string_addf(list, ", …");
      return;
    }
    kf_string_addf(list, "%s'%.64s'", entries > 0 ? ", " : "", columns[i].name);
    if (last > i) kf_string_addf(list, " to '%.64s'", columns[last].name);
    kf_string_addf(list, " (%s)", columns[i].type);
  }
}

kf_status kf_refuse_columns(const char *path, const kf_table_column *columns, size_t n,
                            kf_hint hint, const char *what, kf_err *err) {
  kf_string list = {0};
  kf_list_columns(columns, n, &list);
  kf_status status = list.failed
                         ? kf_fail_memory(err)
                         : kf_fail_hint(err, KF_ERR_DATA, hint, "%s: %s; its columns are %s", path,
                                        what, list.data);
  kf_string_clear(&list);
  return status;
}

kf_status kf_shard_list_columns(kf_shard *shard, const kf_table_column *columns, size_t n,
                                kf_err *err) {
  kf_string list = {0};
  kf_list_columns(columns, n, &list);
  shard->columns = list.data;
  return list.failed ? kf_fail_memory(err) : KF_OK;
}

kf_status kf_shard_name_dims(kf_shard *shard, const kf_table_column *columns, const size_t *order,
                             size_t dims, kf_err *err) {
  const char **names = kf_alloc(dims, sizeof *names);
  if (names == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < dims; i++) names[i] = columns[order[i]].name;
  kf_status status = kf_names_copy(names, (uint32_t)dims, &shard->dims, err);
  kf_free(names);
  return status;
}

/* --- the dimensions ------------------------------------------------------------------------ */

typedef struct choice {
  const char *path;
  const kf_table_column *columns;
  size_t n;
  numbered *found; /* [n_found] numbered columns, by stem and number */
  size_t n_found;
  size_t *order; /* [dims] of columns */
  size_t dims;
} choice;

static kf_status refuse(const choice *c, kf_hint hint, const char *what, kf_err *err) {
  return kf_refuse_columns(c->path, c->columns, c->n, hint, what, err);
}

/* The columns of one stem must be numbers, and numbered from 0 or 1 without a gap. */
static kf_status take_family(choice *c, size_t first, size_t end, kf_err *err) {
  char what[256];
  for (size_t i = first; i < end; i++) {
    const numbered *f = &c->found[i];
    uint64_t begin = c->found[first].number, wanted = (begin == 1) + (i - first);
    if (f->number != wanted) {
      snprintf(what, sizeof what, "column '%.*s%" PRIu64 "' is %s",
               (int)(f->stem < 64 ? f->stem : 64), f->name, f->number < wanted ? f->number : wanted,
               f->number < wanted ? "there twice" : "missing");
      return refuse(c, KF_HINT_NONE, what, err);
    }
    if (c->columns[f->at].use != KF_TABLE_NUMBER) {
      snprintf(what, sizeof what, "column '%.64s' is not a number, as the columns beside it are",
               f->name);
      return refuse(c, KF_HINT_NONE, what, err);
    }
    c->order[c->dims++] = f->at;
  }
  return KF_OK;
}

static kf_status refuse_other(const choice *c, const char *name, kf_err *err) {
  char what[256];
  if (kf_ends_with(c->path, ".parquet"))
    return refuse(
        c, KF_HINT_TENSOR,
        "no column is a list of floats, and none are numbered, as 'x0', 'x1', for dimensions", err);
  snprintf(what, sizeof what,
           "column '%.64s' is text, and none are numbered, as 'x0', 'x1', for dimensions; lists "
           "in text are not read, but a .parquet can hold them",
           name);
  return refuse(c, KF_HINT_NONE, what, err);
}

static kf_status take_all(choice *c, kf_err *err) {
  for (size_t i = 0; i < c->n; i++) {
    if (c->columns[i].use == KF_TABLE_OTHER) return refuse_other(c, c->columns[i].name, err);
    if (c->columns[i].use == KF_TABLE_NUMBER) c->order[c->dims++] = i;
  }
  return c->dims > 0 ? KF_OK : refuse(c, KF_HINT_TENSOR, "no column is a number", err);
}

/* The only stem with several columns or, if one is asked for, that one. */
static kf_status choose(choice *c, const char *stem, kf_err *err) {
  size_t first = 0, end = 0, families = 0;
  for (size_t i = 0, next; i < c->n_found; i = next) {
    for (next = i + 1; next < c->n_found && compare_stems(&c->found[i], &c->found[next]) == 0;)
      next++;
    const numbered *f = &c->found[i];
    bool fits = stem != NULL ? strlen(stem) == f->stem && memcmp(stem, f->name, f->stem) == 0
                             : next - i > 1;
    if (!fits) continue;
    first = i;
    end = next;
    families++;
  }
  if (families == 1) return take_family(c, first, end, err);
  if (families == 0 && stem == NULL) return take_all(c, err);
  char what[160];
  snprintf(what, sizeof what,
           stem != NULL ? "there is no column '%.64s'" : "several sets of columns are numbered",
           stem);
  return refuse(c, stem != NULL ? KF_HINT_NONE : KF_HINT_TENSOR, what, err);
}

kf_status kf_choose_dims(const char *path, const kf_table_column *columns, size_t n,
                         const char *stem, size_t *order, size_t *dims, kf_err *err) {
  choice c = {.path = path, .columns = columns, .n = n, .order = order};
  c.found = kf_alloc(n, sizeof *c.found);
  if (c.found == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < n; i++) {
    if (columns[i].use == KF_TABLE_TAKEN || !split(columns[i].name, &c.found[c.n_found])) continue;
    c.found[c.n_found++].at = i;
  }
  if (c.n_found > 0) qsort(c.found, c.n_found, sizeof *c.found, by_number);
  kf_status status = choose(&c, stem, err);
  *dims = c.dims;
  kf_free(c.found);
  return status;
}
