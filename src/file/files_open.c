/* files_open.c - opens a data set over files.
 *
 * The rows of the files ("shards") follow one another. Labels come from one label file per shard,
 * from one for all rows, or from the shards; class names from a file, from the metadata of the
 * shards or, for text labels, from the labels themselves. */
#include "file/parquet.h"

#include <inttypes.h>
#include <string.h>

/* --- rows ---------------------------------------------------------------------------------- */

/* All shards must have the same class names; otherwise a number would mean different classes. */
static kf_status agree_on_names(kf_files *files, kf_names *names, const char *path, kf_err *err) {
  if (files->n_shards == 1) {
    files->base.names = *names;
    return KF_OK;
  }
  bool equal = kf_names_equal(&files->base.names, names);
  kf_names_clear(names);
  if (equal) return KF_OK;
  return kf_fail_file(
      err, path,
      "the class names differ from those of %s; compute statistics of each and merge them",
      files->shards[0].in.path);
}

/* A shard with the rows of an earlier one, *first; NULL: none. */
static const kf_shard *find_duplicate(const kf_files *files, const kf_shard **first) {
  for (const kf_shard *s = files->shards; s < files->shards + files->n_shards; s++) {
    const char *array = kf_npz_suffix(s->in.path);
    for (const kf_shard *t = files->shards; t < s; t++) {
      if (!kf_same_file(&s->in.state, &t->in.state)) continue;
      const char *other = kf_npz_suffix(t->in.path);
      if (array != NULL && other != NULL && strcmp(array, other) != 0) continue;
      *first = t;
      return s;
    }
  }
  return NULL;
}

/* Duplicate labelled rows make a model look better than it is: one is left out while its copy
 * stays. Repeated queries are harmless, but hardly intended. */
static kf_status check_duplicates(kf_ctx *ctx, const kf_files *files) {
  const kf_shard *first, *duplicate = find_duplicate(files, &first);
  if (duplicate == NULL) return KF_OK;
  const char *a = first->in.path, *b = duplicate->in.path;
  bool same = strcmp(a, b) == 0;
  const char *other = same ? "" : ", which is the same file as ";
  if (!files->base.has_labels)
    kf_log(ctx, "rows are taken twice from %s%s%s", b, other, same ? "" : a);
  else
    return kf_fail(&ctx->err, KF_ERR_ARG, "labelled rows are given twice: from %s%s%s", b, other,
                   same ? "" : a);
  return KF_OK;
}

/* beside: a file with the ids of the shard; NULL: none. */
static kf_status append_shard(kf_files *files, const char *path, const char *beside,
                              const kf_data_options *options, kf_err *err) {
  bool want_names = options->classes == NULL && options->inner_labels != KF_OFF;
  kf_names names = {0};
  kf_shard *shard = &files->shards[files->n_shards++]; /* closed with the others on failure */
  kf_status status =
      kf_shard_open(shard, path, options, files->pages, want_names ? &names : NULL, err);
  if (status != KF_OK) {
    kf_names_clear(&names);
    return status;
  }
  KF_TRY(agree_on_names(files, &names, path, err));
  const kf_shard *zero = &files->shards[0];
  if (shard->table.dim != zero->table.dim)
    return kf_fail_file(err, path, "the rows have %" PRIu32 " columns, those of %s have %" PRIu32,
                        shard->table.dim, zero->in.path, zero->table.dim);
  KF_TRY(kf_origin_join(&files->base.origin, &shard->origin, err));
  files->base.read_with = files->n_shards == 1 ? shard->made_with : 0;
  shard->first = files->base.rows;
  if (!kf_add_u64(files->base.rows, shard->table.rows, &files->base.rows))
    return kf_fail_file(err, path, "too many rows");
  files->base.dim = shard->table.dim;
  files->base.mapped |= shard->mapped;
  if (beside != NULL)
    KF_TRY(kf_parquet_open_ids(shard, beside, options->id_column, files->pages, err));
  if (!shard->ids.there) files->base.fetch_ids = NULL; /* all rows have ids, or none has */
  files->base.raw_type = zero->table.type;
  if (!kf_table_is_raw(&shard->table) || shard->table.type != zero->table.type)
    files->base.fetch_raw = NULL; /* all rows have one type */
  return KF_OK;
}

/* --- galleries with changes ---------------------------------------------------------------- */

/* Appends the changes of a gallery that add rows. Their files are taken over. */
static kf_status append_changes(kf_files *files, const kf_shard *gallery, kf_err *err) {
  bool any = files->base.origin.any;
  for (uint32_t i = 0; i < gallery->changes->n; i++) {
    kf_change *change = &gallery->changes->change[i];
    kf_shard *shard = &files->shards[files->n_shards];
    if (change->rows == 0) continue;
    files->n_shards++; /* closed with the others on failure */
    KF_TRY(kf_shard_open_change(shard, gallery, change, gallery->labels.in != NULL, err));
    files->base.origin.any = true; /* if they differ, the user allowed it when adding them */
    kf_status status = kf_origin_join(&files->base.origin, &shard->origin, err);
    files->base.origin.any = any;
    KF_TRY(status);
  }
  return KF_OK;
}

/* Makes shards of the changes of all galleries. */
static kf_status append_all_changes(kf_files *files, kf_err *err) {
  kf_shard *given = files->shards;
  size_t n = files->n_shards, most = n;
  for (size_t i = 0; i < n; i++) most += given[i].changes != NULL ? given[i].changes->n : 0;
  if (most == n) return KF_OK;
  kf_shard *all = kf_alloc_zero(most, sizeof *all);
  if (all == NULL) return kf_fail_memory(err);
  files->shards = all;
  files->n_shards = 0;
  kf_status status = KF_OK;
  for (size_t i = 0; i < n; i++) {
    kf_shard *shard = &all[files->n_shards++];
    kf_shard_move(&given[i], shard);
    if (status == KF_OK && shard->changes != NULL) status = append_changes(files, shard, err);
  }
  kf_free(given);
  files->base.rows = 0;
  for (kf_shard *s = all; status == KF_OK && s < all + files->n_shards; s++) {
    s->first = files->base.rows;
    if (!kf_add_u64(files->base.rows, s->table.rows, &files->base.rows))
      status = kf_fail_file(err, s->in.path, "too many rows");
  }
  return status;
}

/* Whether a row was removed from its gallery. *gallery: the shard of the
 * gallery; rows come in order. */
static bool is_removed(const kf_files *files, uint64_t row, size_t *gallery) {
  for (size_t s = *gallery + 1; s < files->n_shards && files->shards[s].first <= row; s++)
    if (!files->shards[s].is_change) *gallery = s;
  const kf_shard *shard = &files->shards[*gallery];
  return shard->changes != NULL && kf_changes_removed(shard->changes, row - shard->first);
}

/* Counts classes and unlabelled rows duplicate. */
static kf_status count_labels(kf_data *data, kf_err *err) {
  enum { ROWS_AT_ONCE = 1024 };
  int32_t labels[ROWS_AT_ONCE];
  uint32_t classes = data->names.n;
  for (uint64_t first = 0; data->has_labels && first < data->rows; first += ROWS_AT_ONCE) {
    uint64_t left = data->rows - first, n = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
    KF_TRY(data->fetch(data, NULL, first, n, NULL, labels, err));
    for (uint64_t i = 0; i < n; i++) {
      data->unlabelled += labels[i] < 0;
      if (labels[i] >= (int64_t)classes) classes = (uint32_t)labels[i] + 1;
    }
  }
  if (data->has_labels) data->n_classes = classes;
  return KF_OK;
}

static kf_status leave_out_removed(kf_data **data, kf_err *err) {
  const kf_files *files = (const kf_files *)*data;
  uint64_t removed = 0, n = 0;
  for (size_t s = 0; s < files->n_shards; s++)
    removed += files->shards[s].changes != NULL ? files->shards[s].changes->n_removed : 0;
  if (removed == 0) return KF_OK;
  uint64_t *rows = kf_alloc((*data)->rows - removed, sizeof *rows);
  if (rows == NULL) return kf_fail_memory(err);
  size_t gallery = 0;
  for (uint64_t row = 0; row < (*data)->rows; row++)
    if (!is_removed(files, row, &gallery)) rows[n++] = row;
  KF_TRY(kf_data_keep_rows(data, rows, n, err));
  return count_labels(*data, err);
}

/* Shards are in the order of the paths. */
static void note_doubt(kf_files *files, const kf_paths *paths, kf_order order) {
  size_t at = kf_paths_doubt(paths);
  if (order != KF_ORDER_DEFAULT || at == SIZE_MAX) return;
  files->base.doubt[0] = files->shards[at].in.path;
  files->base.doubt[1] = files->shards[at + 1].in.path;
}

static bool wants_ids(const kf_data_options *options) {
  return options->id_column != NULL && options->id_column[0] != '\0';
}

static kf_status open_shards(kf_files *files, const kf_paths *paths, const kf_paths *beside,
                             const kf_data_options *options, kf_err *err) {
  bool ids = beside->n > 0 && wants_ids(options);
  files->shards = kf_alloc_zero(paths->n, sizeof *files->shards);
  if (files->shards == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < paths->n; i++)
    KF_TRY(append_shard(files, paths->path[i], ids ? beside->path[i] : NULL, options, err));
  note_doubt(files, paths, options->order);
  return append_all_changes(files, err);
}

/* --- labels -------------------------------------------------------------------------------- */

static kf_status open_label_files(kf_files *files, const kf_data_options *options, kf_err *err) {
  const char *column = options->label_column;
  if (options->label_tensor != NULL)
    return kf_fail(
        err, KF_ERR_ARG,
        "%s has the labels, so '%.64s' cannot be a tensor of the data; an array inside an "
        ".npz is named as FILE.npz:NAME",
        options->labels[0], options->label_tensor);
  if (options->n_labels == 1) {
    KF_TRY(kf_data_refuse_doubt(&files->base, options->labels[0], err));
    return kf_labels_open(&files->common, options->labels[0], column, files->base.rows,
                          files->pages, err);
  }
  if (options->n_labels != files->n_shards)
    return kf_fail(err, KF_ERR_ARG,
                   "%zu label files for %zu data files: give one for all or one for each",
                   options->n_labels, files->n_shards);
  for (size_t s = 0; s < files->n_shards; s++) {
    kf_shard *shard = &files->shards[s];
    KF_TRY(kf_labels_open(&shard->labels, options->labels[s], column, shard->table.rows,
                          files->pages, err));
  }
  return KF_OK;
}

/* Labels inside the shards must be in all of them or in none; in all if they
 * were asked for by name. */
static kf_status check_inside(const kf_files *files, const kf_data_options *options,
                              bool *has_labels, kf_err *err) {
  const kf_shard *with = NULL, *without = NULL;
  for (size_t s = 0; s < files->n_shards; s++) {
    const kf_shard *shard = &files->shards[s];
    if (shard->labels.in != NULL)
      with = shard;
    else if (without == NULL)
      without = shard;
  }
  *has_labels = with != NULL;
  const char *asked = options->inner_labels == KF_OFF ? NULL : options->label_tensor;
  if (without != NULL && asked != NULL)
    return kf_fail_file(err, without->in.path, "there is no label tensor '%.64s'", asked);
  if (without != NULL && with != NULL)
    return kf_fail_file(err, without->in.path, "has no labels inside, but %s has", with->in.path);
  return KF_OK;
}

static kf_status check_count(const kf_labels *labels, uint64_t rows, const char *of, kf_err *err) {
  if (labels->count == rows) return KF_OK;
  if (labels->kind == KF_LABELS_LINES && labels->count == rows + 1)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_LABEL_COLUMN,
                        "%s: %" PRIu64 " labels for the %" PRIu64
                        " rows of %s, as if its first line were a header",
                        labels->in->path, labels->count, rows, of);
  return kf_fail_file(err, labels->in->path, "%" PRIu64 " labels for the %" PRIu64 " rows of %s",
                      labels->count, rows, of);
}

/* Text labels are counted by the scan, so their number is checked after it; that
 * of others before it. */
static kf_status scan(const kf_files *files, kf_labels *labels, uint64_t rows, const char *of,
                      kf_label_census *census, kf_err *err) {
  bool counted = labels->kind != KF_LABELS_LINES && labels->kind != KF_LABELS_TABLE;
  if (counted) KF_TRY(check_count(labels, rows, of, err));
  KF_TRY(kf_labels_scan(labels, &files->rules, census, err));
  return check_count(labels, rows, of, err);
}

static kf_status scan_all(kf_files *files, kf_label_census *census, kf_err *err) {
  if (files->common.in != NULL) {
    const char *of = files->n_shards == 1 ? files->shards[0].in.path : "all files together";
    return scan(files, &files->common, files->base.rows, of, census, err);
  }
  for (size_t s = 0; s < files->n_shards; s++) {
    kf_shard *shard = &files->shards[s];
    KF_TRY(scan(files, &shard->labels, shard->table.rows, shard->in.path, census, err));
  }
  return KF_OK;
}

/* --- classes ------------------------------------------------------------------------------- */

static bool any_text(const kf_files *files) {
  if (kf_labels_are_text(&files->common)) return true;
  for (size_t s = 0; s < files->n_shards; s++)
    if (kf_labels_are_text(&files->shards[s].labels)) return true;
  return false;
}

/* With integers next to text, only a list tells which name a number means. */
static kf_status check_kinds(const kf_files *files, kf_err *err) {
  if (files->base.names.n > 0 || !any_text(files)) return KF_OK;
  for (size_t s = 0; files->common.in == NULL && s < files->n_shards; s++) {
    const kf_labels *labels = &files->shards[s].labels;
    if (kf_labels_are_text(labels)) continue;
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                        "%s: integer labels next to text labels need a list of class names",
                        labels->in->path);
  }
  return KF_OK;
}

/* Sets what is known about labels before they are read. */
static kf_status set_rules(kf_files *files, const kf_data_options *options, kf_err *err) {
  kf_names *names = &files->base.names;
  kf_label_rules *rules = &files->rules;
  const char *from = options->classes;
  if (from == NULL)
    from = files->shards[0].in.path;
  else
    KF_TRY(kf_names_read(from, names, err));
  rules->names_from = kf_strdup(from);
  if (rules->names_from == NULL) return kf_fail_memory(err);
  rules->allow_unlabelled = options->allow_unlabelled != 0;
  rules->allow_unknown = options->allow_unknown != 0 && options->classes != NULL;
  rules->n_names = names->n;
  KF_TRY(check_kinds(files, err));
  if (names->n == 0 || !any_text(files)) return KF_OK;
  return kf_dict_new_from_names(names, from, &rules->map, err);
}

/* Text labels without a list of names: the classes are the labels found, sorted. */
static kf_status name_classes(kf_files *files, kf_name_set *found, kf_err *err) {
  if (!any_text(files) || files->rules.map != NULL) return KF_OK;
  kf_names *names = &files->base.names;
  KF_TRY(kf_name_set_list(found, true, names, err));
  return kf_dict_new_from_names(names, files->rules.names_from, &files->rules.map, err);
}

#define SPARSE_CLASSES_LIMIT 65536u

static kf_status open_classes(kf_files *files, const kf_data_options *options, kf_err *err) {
  KF_TRY(set_rules(files, options, err));
  kf_label_census census = {.largest = -1};
  kf_status status = scan_all(files, &census, err);
  if (status == KF_OK) status = name_classes(files, &census.found, err);
  kf_name_set_clear(&census.found);
  if (status != KF_OK) return status;
  kf_data *data = &files->base;
  data->has_labels = true;
  data->unlabelled = census.unlabelled;
  data->n_classes = data->names.n > 0 ? data->names.n : (uint32_t)(census.largest + 1);
  /* A stray label must not create millions of empty classes, each with its sums. */
  if (data->names.n == 0 && data->n_classes > SPARSE_CLASSES_LIMIT &&
      data->n_classes / 16 > data->rows)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                        "%s: the label %" PRId64 " would make %u classes of %" PRIu64
                        " rows; if that is right, give the class names",
                        files->shards[0].in.path, census.largest, data->n_classes, data->rows);
  return KF_OK;
}

/* --- opening ------------------------------------------------------------------------------- */

static kf_status open_files(kf_files *files, const kf_paths *paths, const kf_paths *beside,
                            const kf_data_options *options, kf_err *err) {
  files->base.skip_bad = options->skip_bad != 0;
  KF_TRY(open_shards(files, paths, beside, options, err));
  bool has_labels = options->n_labels > 0;
  if (has_labels)
    KF_TRY(open_label_files(files, options, err));
  else
    KF_TRY(check_inside(files, options, &has_labels, err));
  if (has_labels) return open_classes(files, options, err);
  if (options->classes != NULL)
    return kf_fail(err, KF_ERR_ARG, "%s: class names were given, but there are no labels to name",
                   options->classes);
  kf_names_clear(&files->base.names);
  files->base.columns = files->shards[0].columns;
  return KF_OK;
}

static kf_status check_arguments(const char *const *paths, size_t n, const kf_data_options *options,
                                 kf_err *err) {
  bool missing = n == 0;
  for (size_t i = 0; !missing && i < n; i++) missing = paths[i] == NULL;
  missing = missing || (options->n_labels > 0 && options->labels == NULL);
  for (size_t i = 0; !missing && i < options->n_labels; i++) missing = options->labels[i] == NULL;
  return missing ? kf_fail(err, KF_ERR_ARG, "kf_data_open: a path is missing") : KF_OK;
}

/* Logs choices that the user may not have expected: the order of files, if labels depend on it, and
 * which array holds the labels. */
static void log_choices(kf_ctx *ctx, const kf_files *files, bool ordered) {
  const kf_shard *shards = files->shards;
  for (size_t s = 0; ordered && s + 1 < files->n_shards; s++) {
    if (strcmp(shards[s].in.path, shards[s + 1].in.path) < 0) continue;
    const char *const pair[] = {shards[s].in.path, shards[s + 1].in.path};
    if (kf_by_number(&pair[0], &pair[1]) > 0) continue;
    kf_log(ctx, "files are taken in the order of numbers: %s before %s", pair[0], pair[1]);
    break;
  }
  if (files->n_shards > 0 && shards[0].guessed && shards[0].label_column[0] != '\0')
    kf_log(ctx, "labels are those of %s, column '%s'", shards[0].labels.in->path,
           shards[0].label_column);
  else if (files->n_shards > 0 && shards[0].guessed)
    kf_log(ctx, "labels are those of %s", shards[0].labels.in->path);
}

/* Finds .parquet files beside .npy files, if a column of them is asked for. */
static kf_status list_beside(const kf_paths *list, kf_data_options *o, kf_paths *beside,
                             kf_err *err) {
  bool labels = o->label_column != NULL && o->n_labels == 0 && o->inner_labels != KF_OFF;
  if (!labels && !wants_ids(o)) return KF_OK;
  KF_TRY(kf_paths_beside(list, beside, err));
  if (!labels) return KF_OK;
  o->labels = (const char *const *)beside->path;
  o->n_labels = beside->n;
  return KF_OK;
}

/* *ordered: koofu chose the order of the data files, and it decides which labels they get. */
static kf_status list_files(const char *const *paths, size_t n, kf_data_options *o, kf_paths *list,
                            kf_paths *labels, bool *ordered, kf_err *err) {
  bool moved;
  KF_TRY(kf_paths_expand(paths, n, false, list, err));
  KF_TRY(kf_paths_sort(list, o->order, &moved, err));
  KF_TRY(kf_paths_expand(o->labels, o->n_labels, true, labels, err));
  KF_TRY(kf_paths_match(list, labels, err));
  bool one_by_one = labels->n > 1 && !labels->listed;
  if (moved && one_by_one && !list->listed)
    return kf_fail(err, KF_ERR_ARG,
                   "label files that are given one by one, %s first, belong to data files in the "
                   "order given, so these cannot be sorted",
                   labels->path[0]);
  *ordered = list->listed && o->order == KF_ORDER_DEFAULT && (labels->n == 1 || one_by_one);
  o->labels = (const char *const *)labels->path;
  o->n_labels = labels->n;
  return KF_OK;
}

kf_status kf_data_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                       const kf_data_options *options, kf_data **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, paths != NULL && out != NULL);
  KF_OPTIONS(kf_data_options, o, options);
  KF_TRY(check_arguments(paths, n_paths, &o, err));
  kf_files *files = kf_files_new();
  if (files == NULL) return kf_fail_memory(err);
  files->base.origin.any = ctx->options.any_encoder != 0;
  kf_paths list = {0}, labels = {0}, beside = {0};
  bool ordered = false;
  kf_status status = list_files(paths, n_paths, &o, &list, &labels, &ordered, err);
  if (status == KF_OK) status = list_beside(&list, &o, &beside, err);
  if (status == KF_OK) status = open_files(files, &list, &beside, &o, err);
  if (status == KF_OK) status = check_duplicates(ctx, files);
  if (status == KF_OK) log_choices(ctx, files, ordered);
  kf_paths_clear(&list);
  kf_paths_clear(&labels);
  kf_paths_clear(&beside);
  kf_data *data = &files->base;
  if (status == KF_OK) status = leave_out_removed(&data, err);
  if (o.own_files != 0) status = kf_data_spread(ctx, status, &data);
  if (status == KF_OK && o.only != NULL) status = kf_data_keep_only(ctx, &data, o.only);
  KF_HAND_OUT(status, out, data, kf_data_free);
}
