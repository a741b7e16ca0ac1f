/* test_gallery_live.c - galleries that change: rows added, removed and replaced in files beside
 * them. */
#include "galleries.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

/* A path that stays valid. */
static const char *lasting(const char *name) {
  static char paths[8][256];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s", at(name));
  return path;
}

/* --- a gallery and what it should hold -------------------------------------------------------- */

typedef struct life {
  world w;
  const char *path;
  uint64_t *rows; /* [n] of the world, that should be there in this order */
  uint64_t n;
  uint64_t next; /* row of the world that has not been in it yet */
  kf_metric metric;
  kf_dtype dtype;
  const kf_model *model;
} life;

static void free_life(life *l) {
  free(l->rows);
  free_world(&l->w);
}
AUTO_STRUCT(life, free_life)

/* Some rows of the world as a data set with ids. */
static kf_data *rows_of(const life *l, const uint64_t *rows, uint64_t n, const char **ids) {
  uint32_t dim = l->w.dim;
  AUTOFREE float *x = malloc(n * dim * sizeof *x);
  AUTOFREE int32_t *labels = malloc(n * sizeof *labels);
  char *text = malloc(n * 24 + 1), *end = text;
  for (uint64_t i = 0; i < n; i++) {
    memcpy(x + i * dim, l->w.rows + rows[i] * dim, dim * sizeof *x);
    labels[i] = l->w.labels[rows[i]];
    end += sprintf(end, "id-%llu\n", (unsigned long long)rows[i]);
  }
  *ids = write_bytes("ids.txt", text, (size_t)(end - text));
  free(text);
  kf_data *data, *copy;
  /* A file, since the arrays are gone afterwards. */
  assert_ok(ctx, kf_data_open_memory(ctx, x, n, dim, labels, names, CLASSES, &data));
  assert_ok(ctx, kf_data_save(ctx, data, KF_F32, at("rows.safetensors")));
  kf_data_free(data);
  copy = must_open(at("rows.safetensors"), NULL);
  return copy;
}

static void add(life *l, uint64_t n, int replace, const uint64_t *which) {
  AUTOFREE uint64_t *rows = malloc(n * sizeof *rows);
  for (uint64_t i = 0; i < n; i++) rows[i] = which != NULL ? which[i] : l->next++;
  const char *ids;
  kf_gallery_change done;
  AUTO(kf_data) *data = rows_of(l, rows, n, &ids);
  kf_gallery_options options = {.ids = ids,
                                .metric = l->metric,
                                .dtype = l->n == 0 ? l->dtype : KF_F32,
                                .append_to = l->n > 0 ? l->path : NULL,
                                .again = 1,
                                .replace = replace,
                                .change = &done};
  assert_ok(ctx, kf_gallery_save(ctx, data, l->n == 0 ? l->model : NULL, &options, l->path));
  for (uint64_t i = 0; replace && i < n; i++) {
    uint64_t kept = 0;
    for (uint64_t j = 0; j < l->n; j++)
      if (l->rows[j] != rows[i]) l->rows[kept++] = l->rows[j];
    l->n = kept;
  }
  l->rows = realloc(l->rows, (l->n + n) * sizeof *l->rows);
  memcpy(l->rows + l->n, rows, n * sizeof *rows);
  l->n += n;
  assert_int_equal(done.rows, l->n);
  assert_int_equal(done.added, n);
}

/* Removes n rows at random, and an id that is not there. */
static void take_away(life *l, uint64_t n, uint64_t *seed) {
  char(*id)[24] = malloc((n + 1) * sizeof *id);
  AUTOFREE const char **list = malloc((n + 1) * sizeof *list);
  uint64_t removed = 0;
  for (uint64_t i = 0; i < n && l->n > 0; i++) {
    uint64_t at = test_random(seed) % l->n, row = l->rows[at], kept = 0;
    sprintf(id[i], "id-%llu", (unsigned long long)row);
    for (uint64_t j = 0; j < l->n; j++)
      if (l->rows[j] != row) l->rows[kept++] = l->rows[j];
    removed += l->n - kept;
    l->n = kept;
  }
  strcpy(id[n], "nobody");
  for (uint64_t i = 0; i <= n; i++) list[i] = id[i];
  kf_gallery_change removal;
  assert_ok(ctx, kf_gallery_remove(ctx, l->path, &(kf_id_list){.ids = list, .n = n + 1}, &removal));
  assert_int_equal(removal.removed, removed);
  assert_int_equal(removal.missing, 1);
  free(id);
}

/* A gallery made from its rows at once. */
static const char *fresh(const life *l) {
  const char *path = lasting("fresh.safetensors"), *ids;
  AUTO(kf_data) *data = rows_of(l, l->rows, l->n, &ids);
  kf_gallery_options options = {.ids = ids, .metric = l->metric, .dtype = l->dtype};
  assert_ok(ctx, kf_gallery_save(ctx, data, l->model, &options, path));
  return path;
}

/* Answers of both to queries, to rows of their own and by votes: to the bit. */
static void assert_same_answers(const life *l, const char *path) {
  enum { QUERIES = 20, K = 7 };
  int64_t rows[2][QUERIES * K];
  double scores[2][QUERIES * K];
  int32_t classes[2][QUERIES];
  for (int from_disk = 0; from_disk < 2; from_disk++) {
    const char *paths[] = {l->path, path};
    kf_gallery *g[2];
    for (int i = 0; i < 2; i++) {
      g[i] = load(paths[i], from_disk);
      uint32_t k = l->n > K ? K : (uint32_t)l->n - 1;
      assert_ok(
          ctx, kf_gallery_search(ctx, g[i], l->w.rows, QUERIES, k, NULL, rows[i], scores[i], NULL));
      assert_ok(ctx, kf_gallery_classify(ctx, g[i], l->w.rows, QUERIES,
                                         &(kf_vote_options){.k = k, .weighted = 1}, classes[i],
                                         NULL, NULL));
      if (i == 0) continue;
      assert_memory_equal(rows[0], rows[1], QUERIES * k * sizeof **rows);
      assert_memory_equal(scores[0], scores[1], QUERIES * k * sizeof **scores);
      assert_memory_equal(classes[0], classes[1], sizeof classes[0]);
    }
    assert_int_equal(kf_gallery_rows(g[0]), l->n);
    uint64_t some = l->n < QUERIES ? l->n : QUERIES;
    uint32_t k = l->n > K ? K : (uint32_t)l->n - 1;
    for (int i = 0; i < 2; i++)
      assert_ok(
          ctx, kf_gallery_search_itself(ctx, g[i], l->n - some, some, k, rows[i], scores[i], NULL));
    assert_memory_equal(rows[0], rows[1], some * k * sizeof **rows);
    assert_memory_equal(scores[0], scores[1], some * k * sizeof **scores);
    for (uint64_t i = 0; i < l->n; i++) {
      char id[24];
      sprintf(id, "id-%llu", (unsigned long long)l->rows[i]);
      assert_string_equal(kf_gallery_id(g[0], i), id);
      assert_int_equal(kf_gallery_label(g[0], i), l->w.labels[l->rows[i]]);
    }
    for (int i = 0; i < 2; i++) kf_gallery_free(g[i]);
  }
}

/* Read as data sets, both are the same; so are their descriptions. */
static void assert_same_data(const life *l, const char *path) {
  const char *paths[] = {l->path, path};
  kf_data *data[2];
  kf_info *info[2];
  uint32_t dim = l->model != NULL ? L : l->w.dim;
  float *rows[2];
  int32_t *labels[2];
  for (int i = 0; i < 2; i++) {
    data[i] = must_open(paths[i], NULL);
    assert_int_equal(kf_data_rows(data[i]), l->n);
    rows[i] = malloc(l->n * dim * sizeof **rows);
    labels[i] = malloc(l->n * sizeof **labels);
    assert_ok(ctx, kf_data_get(ctx, data[i], 0, l->n, rows[i], labels[i]));
    assert_ok(ctx, kf_info_read(ctx, paths[i], &info[i]));
    assert_int_equal(info[i]->rows, l->n);
    assert_int_equal(info[i]->classes, CLASSES);
  }
  assert_memory_equal(rows[0], rows[1], l->n * dim * sizeof **rows);
  assert_memory_equal(labels[0], labels[1], l->n * sizeof **labels);
  for (uint64_t i = 0; i < l->n; i++) {
    char id[2][24];
    for (int j = 0; j < 2; j++) assert_ok(ctx, kf_data_get_id(ctx, data[j], i, id[j], 24));
    assert_string_equal(id[0], id[1]);
  }
  for (int i = 0; i < 2; i++) {
    free(rows[i]);
    free(labels[i]);
    kf_info_free(info[i]);
    kf_data_free(data[i]);
  }
}

/* The bytes of a file without its batches, which only a gallery that has grown has. */
static void assert_same_tensors(const char *a, const char *b) {
  kf_st x, y;
  assert_int_equal(kf_st_open(&x, a, &ctx->err), KF_OK);
  assert_int_equal(kf_st_open(&y, b, &ctx->err), KF_OK);
  size_t n = 0;
  for (size_t i = 0; i < x.n_tensors; i++) {
    const kf_st_tensor *t = &x.tensors[i];
    if (strcmp(t->name, KF_TENSOR_BATCHES) == 0) continue;
    const kf_st_tensor *u = kf_st_find(&y, t->name);
    assert_non_null(u);
    assert_int_equal(t->bytes, u->bytes);
    char *bytes[] = {malloc(t->bytes), malloc(t->bytes)};
    assert_int_equal(kf_st_read_all(&x, t, bytes[0], &ctx->err), KF_OK);
    assert_int_equal(kf_st_read_all(&y, u, bytes[1], &ctx->err), KF_OK);
    assert_memory_equal(bytes[0], bytes[1], t->bytes);
    free(bytes[0]);
    free(bytes[1]);
    n++;
  }
  assert_int_equal(n, y.n_tensors);
  kf_st_close(&x);
  kf_st_close(&y);
}

static bool is_there(const char *path) { return access(path, F_OK) == 0; }

/* Random changes: after every step it answers as a gallery made from its rows at once. */
static void live_through(uint64_t seed, kf_metric metric, kf_dtype dtype, bool mapped) {
  AUTO(life) l = {.w = make_world(400, DIM, CLASSES, 2, seed),
                  .path = lasting("live.safetensors"),
                  .metric = metric,
                  .dtype = dtype};
  AUTO(kf_model) *m =
      mapped ? fit_world(&l.w, metric == KF_METRIC_EUCLIDEAN, KF_CENTRE_MEAN) : NULL;
  l.model = m;
  add(&l, 30 + test_random(&seed) % 40, 0, NULL);
  size_t size;
  AUTOFREE char *first = test_read(l.path, &size);
  for (int step = 0; step < 8; step++) {
    uint64_t what = test_random(&seed) % 4, again[3];
    if (what < 2) add(&l, 1 + test_random(&seed) % 30, 0, NULL);
    if (what == 2) take_away(&l, 1 + test_random(&seed) % (l.n / 3), &seed);
    for (int i = 0; i < 3; i++) again[i] = test_random(&seed) % l.next + (uint64_t)i * l.next;
    for (int i = 0; i < 3; i++) again[i] %= l.next;
    if (what == 3 && again[0] != again[1] && again[1] != again[2] && again[0] != again[2])
      add(&l, 3, 1, again);
    if (step % 3 != 2) continue;
    const char *path = fresh(&l);
    assert_same_answers(&l, path);
    assert_same_data(&l, path);
  }
  AUTOFREE char *now = test_read(l.path, &size);
  assert_memory_equal(first, now, size); /* never written again */
  /* Compacted, it is the file that its rows would have given. */
  assert_true(is_there(at("live.safetensors.changes")));
  assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL));
  assert_false(is_there(at("live.safetensors.changes")));
  assert_same_tensors(l.path, fresh(&l));
  assert_same_answers(&l, at("fresh.safetensors"));
  assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL)); /* nothing to do */
}

TEST(lives) {
  static const kf_metric metrics[] = {KF_METRIC_COSINE, KF_METRIC_EUCLIDEAN, KF_METRIC_INNER};
  uint64_t seed = 1;
  for (int m = 0; m < 3; m++)
    for (int dtype = KF_F32; dtype <= KF_BF16; dtype++)
      for (int mapped = 0; mapped < 2; mapped++)
        live_through(seed++, metrics[m], (kf_dtype)dtype, mapped);
}

/* --- what is written -------------------------------------------------------------------------- */

static uint64_t size_of(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  return (uint64_t)info.st_size;
}

/* The only change of a gallery with this name. */
static const char *change_of(const char *name) {
  static char path[600];
  char changes[300];
  snprintf(changes, sizeof changes, "%s.changes", at(name));
  DIR *dir = opendir(changes);
  assert_non_null(dir);
  path[0] = '\0';
  for (const struct dirent *e; (e = readdir(dir)) != NULL;)
    if (e->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", changes, e->d_name);
  closedir(dir);
  return path;
}

/* A change costs what it adds, whatever the gallery holds. */
TEST(cost) {
  uint64_t sizes[2];
  for (int large = 0; large < 2; large++) {
    AUTO(life) l = {.w = make_world(large ? 20000 : 100, DIM, CLASSES, 2, 7),
                    .path = lasting("cost.safetensors")};
    add(&l, l.w.n - 50, 0, NULL);
    add(&l, 50, 0, NULL);
    sizes[large] = size_of(change_of("cost.safetensors"));
  }
  /* Ids of rows with larger numbers are longer. */
  assert_true(sizes[1] < sizes[0] + 50 * 4);
  assert_true(sizes[0] < 50 * (DIM * 4 + 4 + 8 + 8) + 1000);
}

/* --- leftovers, damage and false data
 * -------------------------------------------------------------- */

static kf_status open_it(const char *path) {
  AUTO(kf_gallery) *g = NULL;
  kf_status status = kf_gallery_load(ctx, path, NULL, &g);
  return status;
}

static void copy_file(const char *from, const char *to) {
  size_t size;
  AUTOFREE char *bytes = test_read(from, &size);
  FILE *file = fopen(to, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

/* Leftover changes of another file are ignored, and the next change removes them. */
TEST(left_overs) {
  AUTO(life) l = {.w = make_world(60, DIM, CLASSES, 2, 8), .path = lasting("left.safetensors")};
  add(&l, 20, 0, NULL);
  add(&l, 10, 0, NULL);
  char old[600], kept[600];
  snprintf(old, sizeof old, "%s", change_of("left.safetensors"));
  snprintf(kept, sizeof kept, "%s", at("kept"));
  copy_file(old, kept);
  assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL));
  /* As if the machine had crashed before the change was removed. */
  mkdir(at("left.safetensors.changes"), 0700);
  copy_file(kept, old);
  assert_same_answers(&l, fresh(&l));
  add(&l, 5, 0, NULL);
  assert_false(is_there(old));
  assert_same_answers(&l, fresh(&l));
  /* A rewritten gallery has no changes, even if it has the same bytes as before. */
  life m = {.w = l.w, .path = l.path};
  add(&m, 20, 0, NULL);
  assert_false(is_there(at("left.safetensors.changes")));
  add(&m, 10, 0, NULL);
  free(m.rows);
  m = (life){.w = l.w, .path = l.path};
  add(&m, 20, 0, NULL);
  assert_same_answers(&m, fresh(&m));
  /* A link leads to the file and to the changes beside that. */
  const char *link = lasting("link.safetensors");
  assert_int_equal(symlink(l.path, link), 0);
  m.path = link;
  add(&m, 7, 0, NULL);
  m.path = l.path;
  assert_same_answers(&m, fresh(&m));
  assert_true(is_there(at("left.safetensors.changes")));
  free(m.rows);
}

TEST(missing_and_damaged) {
  AUTO(life) l = {.w = make_world(60, DIM, CLASSES, 2, 9), .path = lasting("bad.safetensors")};
  add(&l, 20, 0, NULL);
  add(&l, 10, 0, NULL);
  char first[600], second[600];
  snprintf(first, sizeof first, "%s", change_of("bad.safetensors"));
  add(&l, 10, 0, NULL);
  snprintf(second, sizeof second, "%s", first);
  strstr(second, "-000001")[6] = '2';
  assert_ok(ctx, open_it(l.path));
  /* Swapped, missing, damaged. */
  const char *aside = lasting("aside");
  assert_int_equal(rename(first, aside), 0);
  assert_error(ctx, KF_ERR_DATA, "1 of 2 changes is missing", open_it(l.path));
  copy_file(second, first);
  assert_error(ctx, KF_ERR_DATA, "is not the change that its name says", open_it(l.path));
  copy_file(aside, first);
  assert_ok(ctx, open_it(l.path));
  FILE *file = fopen(second, "r+b");
  assert_non_null(file);
  fseek(file, -1, SEEK_END);
  fputc(77, file);
  fclose(file);
  assert_error(ctx, KF_ERR_DATA, "the file is damaged", open_it(l.path));
  kf_info *info;
  assert_error(ctx, KF_ERR_DATA, "the file is damaged", kf_info_read(ctx, l.path, &info));
  const char *path = l.path;
  kf_data *data;
  assert_error(ctx, KF_ERR_DATA, "the file is damaged", kf_data_open(ctx, &path, 1, NULL, &data));
  /* What a killed process left behind is removed by the next change; files with other names are
   * ignored. */
  char left[700];
  snprintf(left, sizeof left, "%.*s.%s.0123456789abcdef.part",
           (int)(strrchr(first, '/') + 1 - first), first, strrchr(first, '/') + 1);
  copy_file(first, left);
  assert_int_equal(unlink(second), 0);
  copy_file(first, at("bad.safetensors.changes/notes.txt"));
  copy_file(first, at("bad.safetensors.changes/0123456789abcdef-1.safetensors"));
  assert_ok(ctx, open_it(l.path));
  l.n -= 10;
  add(&l, 10, 0, NULL);
  assert_false(is_there(left));
  assert_true(is_there(at("bad.safetensors.changes/notes.txt")));
  assert_ok(ctx, open_it(l.path));
}

TEST(refused) {
  AUTO(life) l = {.w = make_world(60, DIM, CLASSES, 2, 10), .path = lasting("no.safetensors")};
  add(&l, 5, 0, NULL);
  static const char *const all[] = {"id-0", "id-1", "id-2", "id-3", "id-4"};
  assert_error(ctx, KF_ERR_ARG, "all of its rows would be removed",
               kf_gallery_remove(ctx, l.path, &(kf_id_list){.ids = all, .n = 5}, NULL));
  assert_false(is_there(at("no.safetensors.changes")));
  kf_gallery_change removal;
  static const char *const none[] = {"x", "y", "x"};
  assert_ok(ctx, kf_gallery_remove(ctx, l.path, &(kf_id_list){.ids = none, .n = 3}, &removal));
  assert_int_equal(removal.removed, 0);
  assert_int_equal(removal.missing, 2);
  assert_false(is_there(at("no.safetensors.changes")));
  /* Ids in a file, in a list, or in both. */
  const char *file = write_text("gone.txt", "id-2\n\nid-2\nnobody\n");
  assert_ok(ctx, kf_gallery_remove(ctx, l.path, &(kf_id_list){.ids = all, .n = 1, .file = file},
                                   &removal));
  assert_int_equal(removal.removed, 2);
  assert_int_equal(removal.missing, 1);
  AUTO(kf_gallery) *g = load(l.path, 0);
  assert_int_equal(kf_gallery_rows(g), 3);
  assert_string_equal(kf_gallery_id(g, 0), "id-1");
  /* Without ids. */
  AUTO(kf_data) *data = data_of(l.w.rows, 10, DIM, NULL, 0);
  const char *bare = at("bare.safetensors");
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, NULL, bare));
  assert_error(ctx, KF_ERR_DATA, "has no ids",
               kf_gallery_remove(ctx, bare, &(kf_id_list){.ids = all, .n = 5}, NULL));
  kf_gallery_options options = {.append_to = bare, .replace = 1};
  assert_error(ctx, KF_ERR_ARG, "has no ids", kf_gallery_save(ctx, data, NULL, &options, bare));
  options.append_to = NULL;
  assert_error(ctx, KF_ERR_ARG, "in place", kf_gallery_save(ctx, data, NULL, &options, bare));
  kf_data *other;
  /* Separate labels cannot match rows some of which are gone. */
  const char *path = l.path, *labels = write_text("labels.txt", "0\n1\n1\n");
  assert_error(
      ctx, KF_ERR_DATA, "is a gallery with changes",
      kf_data_open(ctx, &path, 1, &(kf_data_options){.labels = &labels, .n_labels = 1}, &other));
}

/* A batch that is still there is not added again; one whose rows were removed is. */
TEST(repeated) {
  AUTO(life) l = {.w = make_world(60, DIM, CLASSES, 2, 11), .path = lasting("again.safetensors")};
  add(&l, 20, 0, NULL);
  uint64_t rows[] = {30, 31};
  const char *ids;
  AUTO(kf_data) *data = rows_of(&l, rows, 2, &ids);
  int again = 0;
  kf_gallery_options options = {.ids = ids, .append_to = l.path, .repeated = &again};
  for (int round = 0; round < 2; round++) {
    assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, l.path));
    assert_int_equal(again, round);
  }
  assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL));
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, l.path));
  assert_int_equal(again, 1);
  static const char *const one[] = {"id-30"};
  assert_ok(ctx, kf_gallery_remove(ctx, l.path, &(kf_id_list){.ids = one, .n = 1}, NULL));
  options.replace = 1;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, l.path));
  assert_int_equal(again, 0);
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, l.path));
  assert_int_equal(again, 1);
  AUTO(kf_gallery) *g = load(l.path, 0);
  assert_int_equal(kf_gallery_rows(g), 22);
}

/* A private gallery has private changes. */
TEST(modes) {
  AUTO(life) l = {.w = make_world(60, DIM, CLASSES, 2, 12), .path = lasting("mine.safetensors")};
  add(&l, 20, 0, NULL);
  assert_int_equal(chmod(l.path, 0600), 0);
  add(&l, 20, 0, NULL);
  struct stat info;
  assert_int_equal(stat(at("mine.safetensors.changes"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
}

/* Several galleries as one, with changes and types of their own: as one gallery of all rows. */
TEST(several) {
  static const kf_metric metrics[] = {KF_METRIC_COSINE, KF_METRIC_EUCLIDEAN, KF_METRIC_INNER};
  for (int m = 0; m < 3; m++) {
    uint64_t seed = 40 + (uint64_t)m;
    AUTO(world) w = make_world(300, DIM, CLASSES, 2, seed);
    AUTO(kf_model) *model = fit_world(&w, m == 1, KF_CENTRE_MEAN);
    static const char *const files[] = {"one.safetensors", "two.safetensors", "three.safetensors"};
    life all = {.w = w, .path = lasting("all.safetensors"), .metric = metrics[m], .model = model};
    const char *paths[3];
    uint64_t ends[3], next = 0;
    all.rows = malloc(300 * sizeof *all.rows);
    for (int i = 0; i < 3; i++) {
      life l = {.w = w,
                .path = paths[i] = lasting(files[i]),
                .metric = metrics[m],
                .model = model,
                .next = next};
      add(&l, 40, 0, NULL);
      if (i > 0) add(&l, 20, 0, NULL);
      if (i != 1) take_away(&l, 9, &seed);
      next = l.next;
      memcpy(all.rows + all.n, l.rows, l.n * sizeof *l.rows);
      all.n += l.n;
      ends[i] = all.n;
      free(l.rows);
    }
    kf_gallery *one = load(fresh(&all), 0), *many;
    kf_gallery_load_options options = {.more = paths + 1, .n_more = 2};
    enum { QUERIES = 20, K = 9 };
    int64_t rows[2][QUERIES * K];
    double scores[2][QUERIES * K];
    int32_t classes[2][QUERIES];
    for (int from_disk = 0; from_disk < 2; from_disk++) {
      options.rerank_from_disk = from_disk;
      assert_ok(ctx, kf_gallery_load(ctx, paths[0], &options, &many));
      kf_gallery *g[] = {one, many};
      assert_int_equal(kf_gallery_rows(many), all.n);
      for (int i = 0; i < 2; i++) {
        assert_ok(ctx,
                  kf_gallery_search(ctx, g[i], w.rows, QUERIES, K, NULL, rows[i], scores[i], NULL));
        assert_ok(ctx,
                  kf_gallery_classify(ctx, g[i], w.rows, QUERIES, NULL, classes[i], NULL, NULL));
      }
      assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
      assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
      assert_memory_equal(classes[0], classes[1], sizeof classes[0]);
      for (uint64_t i = 0; i < all.n; i++) {
        uint64_t own, file = kf_gallery_file_of(many, i, &own);
        assert_int_equal(file, (i >= ends[0]) + (i >= ends[1]));
        assert_int_equal(own, i - (file > 0 ? ends[file - 1] : 0));
        assert_string_equal(kf_gallery_id(many, i), kf_gallery_id(one, i));
        assert_int_equal(kf_gallery_label(many, i), kf_gallery_label(one, i));
      }
      assert_int_equal(kf_gallery_file_of(one, all.n - 1, NULL), 0);
      kf_gallery_free(many);
    }
    kf_gallery_free(one);
    /* Another map, or none. */
    life plain = {.w = w, .path = lasting("plain.safetensors"), .metric = metrics[m]};
    add(&plain, 40, 0, NULL);
    options.more = &plain.path;
    options.n_more = 1;
    assert_error(ctx, KF_ERR_DATA, "different models",
                 kf_gallery_load(ctx, paths[0], &options, &many));
    free(plain.rows);
    free(all.rows);
  }
}

/* --- while others read ------------------------------------------------------------------------ */

enum { MANY = 40, ROWS_READ = 60 + 2 * MANY }; /* more changes than stay open */

static life many_changes(const char *name, uint64_t seed) {
  life l = {.w = make_world(200, DIM, CLASSES, 2, seed), .path = lasting(name)};
  add(&l, 60, 0, NULL);
  for (int i = 0; i < MANY; i++) add(&l, 2, 0, NULL);
  return l;
}

/* What an open gallery and an open data set return: everything that is read from files. */
typedef struct reading {
  int64_t rows[2][ROWS_READ * 3];
  double scores[2][ROWS_READ * 3];
  float values[ROWS_READ * DIM];
  int32_t labels[ROWS_READ];
  char ids[ROWS_READ][24];
} reading;

static void read_all(kf_gallery *const g[2], const kf_data *data, reading *out) {
  memset(out, 0, sizeof *out);
  for (int i = 0; i < 2; i++)
    assert_ok(ctx, kf_gallery_search_itself(ctx, g[i], 0, ROWS_READ, 3, out->rows[i],
                                            out->scores[i], NULL));
  assert_ok(ctx, kf_data_get(ctx, data, 0, ROWS_READ, out->values, out->labels));
  for (uint64_t i = 0; i < ROWS_READ; i++)
    assert_ok(ctx, kf_data_get_id(ctx, data, i, out->ids[i], sizeof out->ids[i]));
}

/* The names in a folder that begin with this. */
static int names_like(const char *where, const char *beginning) {
  int n = 0;
  DIR *dir = opendir(where);
  assert_non_null(dir);
  for (const struct dirent *e; (e = readdir(dir)) != NULL;)
    n += strncmp(e->d_name, beginning, strlen(beginning)) == 0;
  closedir(dir);
  return n;
}

/* Whatever happens to the gallery, readers that opened it see it as it was. The last of them
 * removes what was kept for them. */
TEST(read_on) {
  static const char *const ways[] = {"compact", "compact twice", "write again", "same bytes"};
  static reading before, after;
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
    AUTO(life) l = many_changes("on.safetensors", 60 + way);
    kf_gallery *g[] = {load(l.path, 0), load(l.path, 1)};
    kf_data *data = must_open(l.path, NULL);
    read_all(g, data, &before);
    if (way < 2) assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL));
    if (way == 1) {
      add(&l, 3, 0, NULL);
      assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL));
    }
    if (way >= 2) {
      free(l.rows);
      l = (life){.w = l.w, .path = l.path, .next = way == 2 ? 5 : 0};
      add(&l, 60, 0, NULL);
    }
    assert_false(is_there(at("on.safetensors.changes")));
    assert_same_answers(&l, fresh(&l));
    read_all(g, data, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(names_like(at("."), ".on.safetensors.changes."), 1);
    kf_data_free(data);
    kf_gallery_free(g[0]);
    assert_int_equal(names_like(at("."), ".on.safetensors.changes."), 1);
    kf_gallery_free(g[1]);
    assert_int_equal(names_like(at("."), ".on.safetensors.changes."), 0);
  }
}

/* A folder that a reader held and did not remove is removed when the gallery is compacted. */
TEST(put_away) {
  AUTO(life) l = many_changes("away.safetensors", 70);
  int reader = open(at("away.safetensors.changes"), O_RDONLY | O_DIRECTORY);
  assert_int_equal(flock(reader, LOCK_SH), 0);
  assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL));
  assert_int_equal(names_like(at("."), ".away.safetensors.changes."), 1);
  close(reader);
  add(&l, 2, 0, NULL);
  write_text("away.safetensors.changes/notes.txt", "something of somebody");
  assert_ok(ctx, kf_gallery_compact(ctx, l.path, NULL));
  assert_int_equal(names_like(at("."), ".away.safetensors.changes."), 0);
  assert_true(is_there(at("away.safetensors.changes/notes.txt")));
  assert_int_equal(names_like(at("away.safetensors.changes"), "notes.txt"), 1);
  assert_same_answers(&l, fresh(&l));
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
