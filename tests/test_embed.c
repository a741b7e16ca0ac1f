/* test_embed.c - pictures to a data set, through the library: what is reported, logged and refused.
 * Sessions with kills, locks and full disks are in tests/cli/test_embed.py. */
#include "files.h"

#include "encode/shards.h"

#include <math.h>
#include <sys/stat.h>

#define MODELS KOOFU_SOURCE_DIR "/tests/golden/models"

static kf_encoder *encoder;
static char told[8192];

static void listen(void *user, const char *message) {
  (void)user;
  size_t n = strlen(told);
  snprintf(told + n, sizeof told - n, "%s\n", message);
}

/* Progress: counts rise, and the work ends where it is asked to. */
static struct {
  uint64_t last, total, stop_at, calls;
  const char *removed_at_last; /* a file that is deleted once all pictures are embedded */
} seen;

static int watch(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)user;
  if (strcmp(what, "embed") != 0) return 0;
  assert_true(done >= seen.last && done <= total);
  seen.last = done;
  seen.total = total;
  seen.calls++;
  if (done == total && seen.removed_at_last != NULL) unlink(seen.removed_at_last);
  return done >= seen.stop_at;
}

static void begin(void) {
  told[0] = '\0';
  memset(&seen, 0, sizeof seen);
  seen.stop_at = UINT64_MAX;
}

static int enter(void **state) {
  make_test_folder(state);
  kf_ctx_free(ctx);
  kf_ctx_options options = {.threads = 2, .progress = watch, .log = listen};
  assert_int_equal(kf_ctx_new(&options, &ctx), KF_OK);
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "/clip-vision", NULL, &encoder));
  begin();
  return 0;
}

static int leave(void **state) {
  kf_encoder_free(encoder);
  return remove_test_folder(state);
}

/* n pictures; number `bad` is not a picture. */
static kf_pictures *make_pictures(int n, int bad) {
  size_t size;
  char *bytes = test_read(MODELS "/pictures/a.png", &size), name[64];
  mkdir(at("p"), 0777);
  mkdir(at("p/class"), 0777);
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "p/class/%03d.png", i);
    write_bytes(name, bytes, i == bad ? 40 : size);
  }
  free(bytes);
  kf_pictures *list;
  const char *path = at("p");
  assert_ok(ctx, kf_pictures_open(ctx, &path, 1, &list));
  return list;
}

static bool there(const char *name) { return access(at(name), F_OK) == 0; }

TEST(reports) {
  AUTO(kf_pictures) *list = make_pictures(10, -1);
  kf_embed_report report = {.rows = 9, .skipped = 9, .resumed = 9};
  kf_embed_options options = {.shard = 3};
  assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at("o.safetensors"), &report));
  assert_int_equal(report.rows, 10);
  assert_int_equal(report.skipped, 0);
  assert_int_equal(report.resumed, 0);
  assert_int_equal(seen.last, 10);
  assert_int_equal(seen.total, 10);
  assert_string_equal(told, "");
  assert_false(there("o.safetensors.parts"));
  AUTO(kf_data) *data = must_open(at("o.safetensors"), NULL);
  assert_int_equal(kf_data_rows(data), 10);
  assert_int_equal(kf_data_dim(data), kf_encoder_dim(encoder));
  assert_int_equal(kf_data_classes(data), 1);
  assert_string_equal(kf_data_class_name(data, 0), "class");
  char id[512];
  assert_ok(ctx, kf_data_get_id(ctx, data, 7, id, sizeof id));
  assert_string_equal(id, kf_pictures_id(list, 7));
  begin();                               /* no report, all options are defaults */
  assert_ok(ctx, kf_outputs_begin(ctx)); /* embedded files cannot be held back */
  assert_error(ctx, KF_ERR_ARG, "kf_outputs_begin holds back",
               kf_embed(ctx, encoder, list, NULL, at("again.safetensors"), NULL));
  kf_outputs_abort(ctx);
  assert_ok(ctx, kf_embed(ctx, encoder, list, NULL, at("again.safetensors"), NULL));
  assert_same_file(at("o.safetensors"), at("again.safetensors"));
}

/* In memory there is what a file has: rows, labels, names, ids and origin. */
TEST(rows_in_memory) {
  AUTO(kf_pictures) *list = make_pictures(7, 2);
  AUTO(kf_data) *rows = NULL;
  kf_reader_options strict = {.block = 3}, lenient = {.block = 3, .skip_bad = 1};
  assert_error(ctx, KF_ERR_DATA, "002.png",
               kf_data_new_from_pictures(ctx, encoder, list, &strict, &rows));
  assert_int_equal(kf_errhint(ctx), KF_HINT_SKIP_PICTURES);
  begin();
  assert_ok(ctx, kf_data_new_from_pictures(ctx, encoder, list, &lenient, &rows));
  assert_non_null(strstr(told, "002.png"));
  assert_true(seen.last == 7 && seen.total == 7 && kf_data_rows(rows) == 6);
  begin();
  assert_ok(ctx, kf_embed(ctx, encoder, list, &(kf_embed_options){.skip_bad = 1},
                          at("o.safetensors"), NULL));
  AUTO(kf_data) *data = must_open(at("o.safetensors"), NULL);
  assert_ok(ctx, kf_data_save(ctx, rows, KF_F32, at("memory.safetensors")));
  assert_ok(ctx, kf_data_save(ctx, data, KF_F32, at("file.safetensors")));
  assert_same_file(at("memory.safetensors"), at("file.safetensors"));
  AUTO(kf_pictures) *none = NULL;
  const char *path = at("p/class/002.png");
  assert_ok(ctx, kf_pictures_open(ctx, &path, 1, &none));
  kf_data *no_rows = NULL;
  begin();
  assert_error(ctx, KF_ERR_DATA, "none of the 1 pictures can be read",
               kf_data_new_from_pictures(ctx, encoder, none, &lenient, &no_rows));
  assert_null(no_rows);
}

/* The rows are those of kf_encode_images. */
TEST(rows_of_the_encoder) {
  const char *paths[] = {MODELS "/pictures/a.png", MODELS "/pictures/b.png",
                         MODELS "/pictures/c.png"};
  uint32_t dim = kf_encoder_dim(encoder);
  float rows[3 * 64], stored[3 * 64];
  assert_true(dim <= 64);
  AUTO(kf_pictures) *list = NULL;
  assert_ok(ctx, kf_encode_images(ctx, encoder, paths, 3, rows, NULL));
  assert_ok(ctx, kf_pictures_open(ctx, paths, 3, &list));
  assert_ok(ctx, kf_embed(ctx, encoder, list, NULL, at("o.safetensors"), NULL));
  AUTO(kf_data) *data = must_open(at("o.safetensors"), NULL);
  assert_false(kf_data_has_labels(data));
  assert_ok(ctx, kf_data_get(ctx, data, 0, 3, stored, NULL));
  assert_memory_equal(rows, stored, 3 * dim * sizeof *rows);
}

static void embed_as(const kf_pictures *list, kf_switch normalize, kf_switch resume,
                     const char *name) {
  kf_embed_options options = {.shard = 2, .normalize = normalize, .resume = resume};
  begin();
  assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at(name), NULL));
}

/* Rows are scaled only when that is on; finished shards are used unless that is off. */
TEST(switches) {
  AUTO(kf_pictures) *list = make_pictures(5, -1);
  embed_as(list, KF_DEFAULT, KF_DEFAULT, "default.safetensors");
  embed_as(list, KF_OFF, KF_ON, "off.safetensors");
  embed_as(list, KF_ON, KF_OFF, "on.safetensors");
  assert_same_file(at("default.safetensors"), at("off.safetensors"));
  float rows[2][64];
  const char *names[] = {"off.safetensors", "on.safetensors"};
  for (int i = 0; i < 2; i++) {
    AUTO(kf_data) *data = must_open(at(names[i]), NULL);
    assert_ok(ctx, kf_data_get(ctx, data, 0, 1, rows[i], NULL));
  }
  uint32_t dim = kf_encoder_dim(encoder);
  double norm2 = ctx->kernels->norm2(rows[0], dim), unit = ctx->kernels->norm2(rows[1], dim);
  assert_true(fabs(unit - 1) < 1e-6 && fabs(norm2 - 1) > 1e-3);
  for (int i = 0; i < 3; i++) {
    static const kf_switch resume[] = {KF_DEFAULT, KF_ON, KF_OFF};
    kf_embed_options options = {.shard = 2, .resume = resume[i]};
    kf_embed_report report;
    begin();
    seen.stop_at = 4;
    unlink(at("o.safetensors"));
    assert_int_equal(kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL),
                     KF_ERR_CANCELLED);
    begin();
    assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at("o.safetensors"), &report));
    assert_int_equal(report.resumed > 0, resume[i] != KF_OFF);
  }
  kf_embed_options newer = {.reserved = {1}};
  begin();
  assert_error(ctx, KF_ERR_ARG, "not zeroed",
               kf_embed(ctx, encoder, list, &newer, at("o.safetensors"), NULL));
}

/* What the caller can do about an error is a hint, not a part of the message. */
TEST(hints) {
  kf_pictures *list = make_pictures(4, 3);
  kf_embed_options options = {.shard = 2};
  assert_int_equal(kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL), KF_ERR_DATA);
  assert_int_equal(kf_errhint(ctx), KF_HINT_SKIP_PICTURES);
  options.dtype = KF_F16; /* another run */
  begin();
  assert_error(ctx, KF_ERR_ARG, "another type",
               kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL));
  assert_int_equal(kf_errhint(ctx), KF_HINT_NO_RESUME);
  write_bytes("o.safetensors.parts/manifest.safetensors", "nonsense", 8);
  assert_int_equal(kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL), KF_ERR_DATA);
  assert_int_equal(kf_errhint(ctx), KF_HINT_NO_RESUME);
  assert_int_equal(unlink(at("p/class/001.png")), 0);
  assert_int_equal(kf_embed(ctx, encoder, list, &options, at("n.safetensors"), NULL), KF_ERR_IO);
  assert_int_equal(kf_errhint(ctx), KF_HINT_SKIP_PICTURES);
  kf_pictures_free(list);

  AUTO(kf_encoder) *small = NULL;
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "/clip-vision", &(kf_encoder_options){.max_pixels = 1},
                                 &small));
  list = make_pictures(4, -1);
  begin();
  assert_error(ctx, KF_ERR_DATA, "more than the limit of 1",
               kf_embed(ctx, small, list, NULL, at("n.safetensors"), NULL));
  assert_int_equal(kf_errhint(ctx), KF_HINT_MAX_PIXELS);
  kf_pictures_free(list);
}

/* However long the path is, the message still says what is wrong with the picture. */
TEST(a_long_path_is_told_whole) {
  kf_pictures_free(make_pictures(2, 1));
  char paths[2][1200];
  for (int i = 0; i < 2; i++) {
    size_t n = (size_t)snprintf(paths[i], sizeof *paths, "%s", at("p/class"));
    while (n < 1000) n += (size_t)snprintf(paths[i] + n, sizeof *paths - n, "/.");
    snprintf(paths[i] + n, sizeof *paths - n, "/%03d.png", i);
  }
  AUTO(kf_pictures) *list = NULL;
  assert_ok(ctx, kf_pictures_open(ctx, (const char *const[]){paths[0], paths[1]}, 2, &list));
  kf_embed_options options = {.skip_bad = 1};
  assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL));
  assert_non_null(strstr(told, "001.png: is a truncated PNG"));
}

/* If stopped in the middle, it keeps what is finished, and the next run continues from there. */
TEST(stops_and_goes_on) {
  AUTO(kf_pictures) *list = make_pictures(10, 4);
  kf_embed_report report;
  kf_embed_options options = {.shard = 3, .skip_bad = 1};
  assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at("one.safetensors"), &report));
  assert_int_equal(report.rows, 9);
  assert_int_equal(report.skipped, 1);
  char first[sizeof told];
  memcpy(first, told, sizeof first);
  assert_non_null(strstr(first, "p/class/004.png"));

  begin();
  seen.stop_at = 6;
  assert_int_equal(kf_embed(ctx, encoder, list, &options, at("o.safetensors"), &report),
                   KF_ERR_CANCELLED);
  assert_false(there("o.safetensors"));
  assert_true(there("o.safetensors.parts/shard-00000000.safetensors"));
  begin();
  assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at("o.safetensors"), &report));
  assert_int_equal(report.rows, 9);
  assert_int_equal(report.skipped, 1);
  assert_true(report.resumed == 3 || report.resumed == 6);
  assert_string_equal(told, first); /* logged by the run before, and logged again */
  assert_same_file(at("o.safetensors"), at("one.safetensors"));

  /* A shard with bad pictures is not reused when skipping is off, but is kept for a run that skips
   * them. */
  begin();
  seen.stop_at = 8;
  assert_int_equal(kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL),
                   KF_ERR_CANCELLED);
  assert_true(there("o.safetensors.parts/shard-00000001.safetensors"));
  begin();
  kf_embed_options all = {.shard = 3};
  assert_error(ctx, KF_ERR_DATA, "p/class/004.png",
               kf_embed(ctx, encoder, list, &all, at("o.safetensors"), NULL));
  assert_true(there("o.safetensors.parts/shard-00000001.safetensors"));
  begin(); /* and a failed run does not remove it */
  seen.stop_at = 0;
  assert_int_equal(kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL),
                   KF_ERR_CANCELLED);
  assert_true(there("o.safetensors.parts/shard-00000001.safetensors"));
  begin();
  assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at("o.safetensors"), &report));
  assert_int_equal(report.rows, 9);
  assert_true(report.resumed >= 6);

  /* Stopped at once: nothing is finished, and nothing stays. */
  begin();
  seen.stop_at = 0;
  assert_int_equal(kf_embed(ctx, encoder, list, &options, at("n.safetensors"), NULL),
                   KF_ERR_CANCELLED);
  assert_false(there("n.safetensors.parts"));
}

/* If a shard disappears before the file is assembled, that is an error, and the next run reuses the
 * others. */
TEST(shards_that_go) {
  AUTO(kf_pictures) *list = make_pictures(10, -1);
  kf_embed_options options = {.shard = 3};
  kf_embed_report report;
  seen.removed_at_last = at("o.safetensors.parts/shard-00000002.safetensors");
  assert_error(ctx, KF_ERR_IO, "shard 2 is gone or damaged",
               kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL));
  assert_false(there("o.safetensors"));
  begin();
  assert_ok(ctx, kf_embed(ctx, encoder, list, &options, at("o.safetensors"), &report));
  assert_int_equal(report.resumed, 7);
  assert_int_equal(report.rows, 10);
}

/* After the call the context reports to its owner as before. */
TEST(the_context_is_as_before) {
  AUTO(kf_pictures) *list = make_pictures(4, 2);
  assert_error(ctx, KF_ERR_DATA, "p/class/002.png",
               kf_embed(ctx, encoder, list, NULL, at("o.safetensors"), NULL));
  assert_ptr_equal(ctx->options.progress, watch);
  assert_ptr_equal(ctx->options.log, listen);
  assert_null(ctx->options.user);
  assert_false(there("o.safetensors.parts"));
}

TEST(what_is_refused) {
  AUTO(kf_pictures) *list = make_pictures(3, -1);
  const char *out = at("o.safetensors");
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_embed(ctx, NULL, list, NULL, out, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_embed(ctx, encoder, NULL, NULL, out, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_embed(ctx, encoder, list, NULL, NULL, NULL));
  assert_int_equal(kf_embed(NULL, encoder, list, NULL, out, NULL), KF_ERR_ARG);
  assert_error(ctx, KF_ERR_ARG, "f32, f16 or bf16",
               kf_embed(ctx, encoder, list, &(kf_embed_options){.dtype = KF_F64}, out, NULL));
  assert_error(ctx, KF_ERR_ARG, ".safetensors",
               kf_embed(ctx, encoder, list, NULL, at("o.npy"), NULL));
  assert_error(ctx, KF_ERR_IO, "absent",
               kf_embed(ctx, encoder, list, NULL, at("absent/o.safetensors"), NULL));
  AUTO(kf_encoder) *text = NULL;
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "/clip-text", NULL, &text));
  assert_error(ctx, KF_ERR_ARG, "no image tower", kf_embed(ctx, text, list, NULL, out, NULL));
  assert_int_equal(test_entries(folder), 1);
}

/* --- shards ----------------------------------------------------------------------------------- */

/* A shard is reused only if it is undamaged and matches the run, its number and its pictures. */
TEST(shards_are_checked) {
  kf_err err = {0};
  kf_embed_run run = {.pictures = 5, .list = 1, .encoder = 2, .dim = 2, .shard_size = 3};
  char out[300]; /* the loops below use up all places of at() */
  snprintf(out, sizeof out, "%s", at("o.safetensors"));
  const float rows[] = {1, 2, 3, 4};
  const unsigned char bad[] = {0, 1, 0};
  const uint64_t sums[] = {10, 11, 12};
  kf_string said = {0};
  kf_string_add(&said, "one\0two", 8);
  kf_shard_content content = {
      .stamp = 77, .bad = bad, .sums = sums, .rows = rows, .messages = &said};
  kf_shards shards;
  assert_int_equal(kf_shards_open(&shards, out, &run, false, &err), KF_OK);
  assert_true(shards.begun);
  assert_int_equal(kf_shards_count(&run), 2);
  assert_int_equal(kf_shards_save(&shards, 0, &content, &err), KF_OK);
  kf_finished shard;
  bool is;
  char why[KF_WHERE_SIZE];
  assert_int_equal(kf_shards_find(&shards, 0, 77, &shard, &is, why, &err), KF_OK);
  assert_true(is);
  assert_int_equal(shard.n, 3);
  assert_int_equal(shard.kept, 2);
  assert_memory_equal(shard.bad, bad, 3);
  assert_memory_equal(shard.sums, sums, sizeof sums);
  assert_int_equal(shard.n_messages, 8);
  assert_memory_equal(shard.messages, "one\0two", 8);
  kf_finished_close(&shard);
  assert_int_equal(kf_shards_find(&shards, 0, 78, &shard, &is, why, &err), KF_OK);
  assert_false(is);
  assert_non_null(strstr(why, "changed"));
  assert_int_equal(kf_shards_find(&shards, 1, 77, &shard, &is, why, &err), KF_OK);
  assert_false(is);
  assert_string_equal(why, ""); /* it merely does not exist */

  /* Messages whose last one has no NUL are invalid. */
  content.messages = &(kf_string){.data = said.data, .n = 7};
  assert_int_equal(kf_shards_save(&shards, 0, &content, &err), KF_OK);
  content.messages = &said;
  assert_int_equal(kf_shards_find(&shards, 0, 77, &shard, &is, why, &err), KF_OK);
  assert_false(is);
  assert_non_null(strstr(why, "made again"));
  assert_int_equal(kf_shards_save(&shards, 0, &content, &err), KF_OK);

  /* Every byte counts. */
  const char *path = at("o.safetensors.parts/shard-00000000.safetensors");
  size_t size;
  AUTOFREE char *bytes = test_read(path, &size);
  for (size_t i = 0; i < size; i++) {
    bytes[i] = (char)(bytes[i] ^ 4);
    write_bytes("o.safetensors.parts/shard-00000000.safetensors", bytes, size);
    bytes[i] = (char)(bytes[i] ^ 4);
    assert_int_equal(kf_shards_find(&shards, 0, 77, &shard, &is, why, &err), KF_OK);
    assert_false(is);
    assert_string_not_equal(why, "");
  }
  for (size_t n = 1; n < size; n++) {
    write_bytes("o.safetensors.parts/shard-00000000.safetensors", bytes, n);
    assert_int_equal(kf_shards_find(&shards, 0, 77, &shard, &is, why, &err), KF_OK);
    assert_false(is);
  }
  kf_string_clear(&said);

  /* No other process gets in meanwhile; a different run is refused altogether, and the folder
   * stays. */
  kf_shards other;
  assert_int_equal(kf_shards_open(&other, out, &run, true, &err), KF_ERR_IO);
  assert_non_null(strstr(err.message, "another process"));
  kf_shards_close(&shards);
  run.encoder = 3;
  assert_int_equal(kf_shards_open(&other, out, &run, false, &err), KF_ERR_ARG);
  assert_non_null(strstr(err.message, "another encoder"));
  assert_true(there("o.safetensors.parts/shard-00000000.safetensors"));
  assert_int_equal(kf_shards_open(&other, out, &run, true, &err), KF_OK);
  assert_false(there("o.safetensors.parts/shard-00000000.safetensors"));
  kf_shards_remove(&other);
  assert_false(there("o.safetensors.parts"));
  kf_shards_remove(&other); /* does nothing */
}

/* A folder of that name with shards of another program is left as it is. */
TEST(shards_of_others_stay) {
  AUTO(kf_pictures) *list = make_pictures(3, -1);
  mkdir(at("o.safetensors.parts"), 0777);
  write_bytes("o.safetensors.parts/shard-00000000.safetensors", "mine", 4);
  for (int anew = 0; anew < 2; anew++) {
    kf_embed_options options = {.resume = anew ? KF_OFF : KF_ON};
    assert_error(ctx, KF_ERR_IO, "shard-00000000.safetensors but no manifest",
                 kf_embed(ctx, encoder, list, &options, at("o.safetensors"), NULL));
  }
  assert_int_equal(rename(at("o.safetensors.parts/shard-00000000.safetensors"),
                          at("o.safetensors.parts/shard-1-of-2.safetensors")),
                   0);
  assert_ok(ctx, kf_embed(ctx, encoder, list, NULL, at("o.safetensors"), NULL));
  assert_true(there("o.safetensors.parts/shard-1-of-2.safetensors"));
}

/* The targets of links in the folder are neither written nor created. */
TEST(links_are_not_followed) {
  kf_err err = {0};
  kf_embed_run run = {.pictures = 1, .list = 1, .encoder = 2, .dim = 2, .shard_size = 3};
  kf_string said = {0};
  kf_shards shards;
  write_bytes("mine", "mine", 4);
  assert_int_equal(kf_shards_open(&shards, at("o"), &run, false, &err), KF_OK);
  assert_int_equal(symlink("../mine", at("o.parts/shard-00000000.safetensors")), 0);
  kf_shard_content content = {.stamp = 7,
                              .bad = &(unsigned char){0},
                              .sums = &(uint64_t){1},
                              .rows = (float[]){1, 2},
                              .messages = &said};
  assert_int_equal(kf_shards_save(&shards, 0, &content, &err), KF_OK);
  kf_shards_remove(&shards);
  assert_false(there("o.parts"));
  size_t size;
  AUTOFREE char *bytes = test_read(at("mine"), &size);
  assert_int_equal(size, 4);
  assert_int_equal(mkdir(at("o.parts"), 0777), 0);
  assert_int_equal(symlink("../made", at("o.parts/lock")), 0);
  assert_int_equal(kf_shards_open(&shards, at("o"), &run, false, &err), KF_ERR_IO);
  assert_non_null(strstr(err.message, "o.parts/lock"));
  assert_false(there("made"));
}

FIXTURES(.before_each = enter, .after_each = leave);
