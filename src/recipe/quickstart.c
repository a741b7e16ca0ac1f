/* quickstart.c - makes a classifier and a page about it from pictures in class folders, choosing
 * everything: kf_embed, kf_text_new_from_prompts, kf_fit and kf_report_write, one after another. */
#include "recipe/recipe.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* In units of the mean eigenvalue. At so large a lambda the map does not change cosines: leaving
 * rows out there measures the raw space. */
static const double RAW_LAMBDA = 1e9;

typedef struct quickstart {
  kf_ctx *ctx;
  const kf_encoder *encoder;
  const kf_pictures *pictures;
  kf_quickstart_options options;
  const char *folder, *name;
  kf_arena paths; /* of the files */
  bool made;      /* the folder */
  kf_data *rows;
  kf_stats *stats;
  kf_text *text;         /* NULL: class names are not used */
  kf_class_names *names; /* of folders, as words */
  kf_report_job report;
  int lock; /* of the folder; -1: none */
  kf_quickstart_result result;
} quickstart;

/* --- pictures --------------------------------------------------------------------------------- */

/* There must be rows to leave out, and two classes to distinguish. */
static kf_status check_counts(const quickstart *q, const int64_t *counts, uint32_t n) {
  uint32_t with_rows = 0;
  int64_t most = 0;
  for (uint32_t k = 0; k < n; k++) {
    with_rows += counts[k] > 0;
    if (counts[k] > most) most = counts[k];
  }
  if (with_rows < 2)
    return kf_fail_hint(
        &q->ctx->err, KF_ERR_DATA,
        kf_pictures_classes(q->pictures) == 0 ? KF_HINT_LABELS : KF_HINT_NONE,
        "%s: %s; there must be a folder of pictures for each class, and two classes", q->name,
        with_rows == 1 ? "only one class has pictures that can be read" : "no class folders");
  if (most > 1) return KF_OK;
  return kf_fail_file(&q->ctx->err, q->name,
                      "every class has a single picture, which does not show how pictures of "
                      "one class differ");
}

static kf_status check_pictures(const quickstart *q) {
  uint32_t n = kf_pictures_classes(q->pictures);
  int64_t *counts = kf_alloc_zero(n, sizeof *counts);
  if (counts == NULL) return kf_fail_memory(&q->ctx->err);
  for (uint64_t i = 0; n > 0 && i < kf_pictures_count(q->pictures); i++) {
    int32_t label = kf_pictures_label(q->pictures, i);
    if (label >= 0) counts[label]++;
  }
  kf_status status = check_counts(q, counts, n);
  kf_free(counts);
  return status;
}

static kf_status embed(quickstart *q) {
  const char *path = kf_path_join_in(&q->paths, q->folder, "embeddings.safetensors");
  if (path == NULL) return kf_fail_memory(&q->ctx->err);
  KF_TRY(kf_embed(q->ctx, q->encoder, q->pictures, &q->options.embed, path, &q->result.embed));
  KF_TRY(kf_data_open(q->ctx, &path, 1, NULL, &q->rows));
  KF_TRY(kf_stats_of_data(q->ctx, q->rows, &(kf_stats_options){0}, &q->stats));
  return check_counts(q, q->stats->counts, q->stats->n_classes); /* of those that could be read */
}

/* --- class names ------------------------------------------------------------------------------ */

/* Whether class names take part; logs why not. */
static bool names_take_part(const quickstart *q) {
  if (q->options.text == KF_OFF) return false;
  uint32_t n = kf_pictures_classes(q->pictures), words = 0;
  for (uint32_t k = 0; k < n; k++) words += kf_is_word(kf_pictures_class_name(q->pictures, k));
  bool tower = kf_encoder_context(q->encoder) > 0;
  if (tower && 2 * words > n) return true;
  kf_log(q->ctx, "class names are not used: %s",
         tower ? "most are numbers, which mean nothing to the encoder"
               : "the encoder has no text tower that koofu reads");
  return false;
}

/* Makes the prompts; *out: NULL if class names are not used. */
static kf_status make_prompts(const quickstart *q, kf_prompts **out) {
  *out = NULL;
  if (!names_take_part(q)) return KF_OK;
  uint32_t n = kf_pictures_classes(q->pictures);
  const char **names = kf_alloc(n, sizeof *names);
  if (names == NULL) return kf_fail_memory(&q->ctx->err);
  for (uint32_t k = 0; k < n; k++) names[k] = kf_pictures_class_name(q->pictures, k);
  kf_prompts_options o = {.names = names,
                          .n_names = n,
                          .folders = 1,
                          .templates = q->options.templates,
                          .repeats = KF_REPEATS_NAMES};
  kf_status status = kf_prompts_new(q->ctx, &o, out);
  kf_free(names);
  return status;
}

/* Reuses the text of an earlier run if it would be the same. */
static kf_status take_earlier(quickstart *q, const char *path, uint64_t made_with) {
  kf_err ignored;
  kf_st st;
  if (q->options.embed.resume == KF_OFF || kf_st_open(&st, path, &ignored) != KF_OK) return KF_OK;
  bool same = kf_st_meta_is_hex(&st, KF_MADE_WITH, made_with);
  kf_st_close(&st);
  if (!same) return KF_OK;
  kf_data *data = NULL;
  kf_text_options as_is = {.unit_rows = KF_OFF, .unit_mean = KF_OFF};
  kf_status status = kf_data_open(q->ctx, &path, 1, NULL, &data);
  if (status == KF_OK) status = kf_text_new(q->ctx, data, &as_is, &q->text);
  kf_data_free(data);
  q->result.text_reused = status == KF_OK;
  return status == KF_ERR_DATA ? KF_OK : status; /* a damaged file is made again */
}

static kf_status embed_names(quickstart *q, const kf_prompts *prompts) {
  if (prompts == NULL) return KF_OK;
  const char *path = kf_path_join_in(&q->paths, q->folder, "text.safetensors");
  if (path == NULL) return kf_fail_memory(&q->ctx->err);
  q->result.prompts = kf_prompts_count(prompts);
  uint64_t made_with = kf_prompts_checksum(prompts, q->encoder);
  KF_TRY(take_earlier(q, path, made_with));
  if (q->text != NULL) return KF_OK;
  KF_TRY(kf_text_new_from_prompts(q->ctx, q->encoder, prompts, NULL, &q->text));
  return kf_text_save(q->ctx, q->text, path);
}

static const char *label_of(const quickstart *q, uint32_t k) {
  return kf_pictures_class_name(q->pictures, k);
}

/* Whether a class has another name than its folder. */
static bool is_renamed(const quickstart *q, uint32_t k) {
  return strcmp(kf_class_names_of(q->names, label_of(q, k), k), label_of(q, k)) != 0;
}

static kf_status spell_names(quickstart *q) {
  uint32_t n = kf_pictures_classes(q->pictures);
  const char **labels = kf_alloc(n, sizeof *labels);
  if (labels == NULL) return kf_fail_memory(&q->ctx->err);
  for (uint32_t k = 0; k < n; k++) labels[k] = label_of(q, k);
  kf_status status = kf_class_names_load(q->ctx, NULL, labels, n, &q->names);
  kf_free(labels);
  for (uint32_t k = 0; status == KF_OK && k < n; k++) q->result.renamed += is_renamed(q, k);
  return status;
}

/* {"LABEL": "NAME", ...}, for --names. */
static kf_status save_names(quickstart *q) {
  kf_string text = {0};
  const char *path = kf_path_join_in(&q->paths, q->folder, KF_QUICKSTART_NAMES);
  if (path == NULL) return kf_fail_memory(&q->ctx->err);
  if (q->result.renamed == 0) return KF_OK;
  for (uint32_t k = 0; k < kf_pictures_classes(q->pictures); k++) {
    kf_string_addf(&text, k == 0 ? "{\n" : ",\n");
    kf_string_add_json(&text, label_of(q, k));
    kf_string_addf(&text, ": ");
    kf_string_add_json(&text, kf_class_names_of(q->names, label_of(q, k), k));
  }
  kf_string_addf(&text, "\n}\n");
  kf_status status = kf_string_write(q->ctx, &text, path);
  kf_string_clear(&text);
  return status;
}

/* --- model and page --------------------------------------------------------------------------- */

static kf_status leave_out_raw(quickstart *q) {
  kf_lambda huge = {RAW_LAMBDA, KF_LAMBDA_RELATIVE};
  kf_sweep_options o = {.lambdas = &huge,
                        .n_lambdas = 1,
                        .leave_one_out = 1,
                        .method = KF_METHOD_PAPER, /* columns and class means as they are */
                        .sample = KF_LEFT_OUT_SAMPLE};
  kf_sweep *sweep;
  KF_TRY(kf_sweep_new(q->ctx, q->stats, q->rows, NULL, &o, &sweep));
  q->result.raw_top1 = sweep->cells[0].top1;
  q->result.raw_n = sweep->cells[0].n;
  kf_sweep_free(sweep);
  return KF_OK;
}

static void fill_result(quickstart *q) {
  const kf_report_job *j = &q->report;
  const kf_fit_report *r = j->fit.report;
  const kf_lambda_choice *c = r->by_lambda;
  const kf_fuse_choice *f = r->by_fusion;
  const kf_dim_choice *d = r->by_dim;
  kf_quickstart_result *out = &q->result;
  out->rows = q->stats->rows;
  out->classes = kf_model_classes(j->model);
  out->dim_in = kf_model_dim_in(j->model);
  out->dim = kf_model_dim_out(j->model);
  out->lambda = kf_model_lambda(j->model);
  out->alpha = kf_model_alpha(j->model);
  out->n = c->n_all;
  out->n_single = c->n_single;
  out->top1 = c->all.top1;
  out->n_compared = r->n_compared;
  out->n_near = r->n_near;
  out->many_near = r->many_near;
  if (f != NULL) {
    out->text_top1 = f->text_top1;
    out->fused_top1 = f->n_points > 0 ? f->points[f->chosen].top1 : 0;
    return;
  }
  out->folds = d->folds;
  out->dim_n = d->n;
  out->fewer = d->dim;
  out->dim_top1 = d->points[d->dim - 1].top1;
  out->all_top1 = d->points[d->n_points - 1].top1;
}

/* What an earlier run made and this one did not would be about other pictures. */
static kf_status remove_stale(quickstart *q) {
  const char *stale[] = {q->result.renamed == 0 ? KF_QUICKSTART_NAMES : NULL,
                         q->result.prompts == 0 ? "text.safetensors" : NULL};
  for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
    const char *path = stale[i] != NULL ? kf_path_join_in(&q->paths, q->folder, stale[i]) : NULL;
    if (path != NULL && unlink(path) != 0 && errno != ENOENT)
      return kf_fail_errno(&q->ctx->err, path, "cannot be removed", errno);
  }
  return q->paths.failed ? kf_fail_memory(&q->ctx->err) : KF_OK;
}

static kf_status fit_and_report(quickstart *q) {
  kf_ctx *ctx = q->ctx;
  kf_report_job *j = &q->report;
  kf_report_options o = {.title = q->options.title,
                         .train_name = q->options.name,
                         .names = q->names,
                         .fit = {.text = q->text, .stats = q->stats}};
  KF_TRY(kf_report_choose(j, ctx, q->rows, &o));
  KF_TRY(leave_out_raw(q));
  const char *model = kf_path_join_in(&q->paths, q->folder, "model.safetensors");
  const char *page = kf_path_join_in(&q->paths, q->folder, "report.html");
  if (q->paths.failed) return kf_fail_memory(&ctx->err);
  KF_TRY(kf_outputs_begin(ctx)); /* the page is about this model */
  KF_TRY(kf_model_save(ctx, j->model, model));
  KF_TRY(kf_report_finish(j, page));
  KF_TRY(save_names(q));
  KF_TRY(kf_outputs_commit(ctx));
  KF_TRY(remove_stale(q));
  fill_result(q);
  return KF_OK;
}

/* Checks come first, since embedding takes long. */
static kf_status make_all(quickstart *q) {
  kf_prompts *prompts;
  KF_TRY(check_pictures(q));
  KF_TRY(kf_quickstart_may_write(q->pictures, q->folder, &q->ctx->err));
  KF_TRY(spell_names(q));
  KF_TRY(make_prompts(q, &prompts));
  bool renamed = q->result.renamed > 0;
  kf_status status = kf_quickstart_begin(q->ctx, q->folder, q->name, renamed, &q->made, &q->lock);
  if (status == KF_OK) status = embed(q);
  if (status == KF_OK) status = embed_names(q, prompts);
  kf_prompts_free(prompts);
  return status == KF_OK ? fit_and_report(q) : status;
}

static quickstart start(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                        const kf_quickstart_options *o, const char *folder) {
  return (quickstart){.ctx = ctx,
                      .encoder = encoder,
                      .pictures = pictures,
                      .options = *o,
                      .folder = folder,
                      .lock = -1,
                      .name = o->name != NULL ? o->name : "pictures"};
}

kf_status kf_quickstart_check(kf_ctx *ctx, const kf_pictures *pictures,
                              const kf_quickstart_options *options, const char *folder) {
  KF_ENTER(ctx, pictures != NULL && folder != NULL);
  KF_OPTIONS(kf_quickstart_options, o, options);
  quickstart q = start(ctx, NULL, pictures, &o, folder);
  KF_TRY(check_pictures(&q));
  KF_TRY(kf_quickstart_may_write(pictures, folder, err));
  if (o.text == KF_OFF) return KF_OK;
  const char *any = "name";
  kf_prompts_options templates = {.names = &any, .n_names = 1, .templates = o.templates};
  kf_prompts *prompts = NULL;
  kf_status status = kf_prompts_new(ctx, &templates, &prompts);
  kf_prompts_free(prompts);
  return status;
}

kf_status kf_quickstart(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                        const kf_quickstart_options *options, const char *folder,
                        kf_quickstart_result *out) {
  KF_ENTER(ctx, encoder != NULL && pictures != NULL && folder != NULL);
  KF_OPTIONS(kf_quickstart_options, o, options);
  KF_TRY(kf_refuse_held(ctx, __func__, err));
  quickstart q = start(ctx, encoder, pictures, &o, folder);
  kf_status status = make_all(&q);
  kf_outputs_abort(ctx);
  if (status == KF_OK && out != NULL) {
    *out = q.result;
    out->errors = q.report.analysis;
    q.report.analysis = NULL;
  }
  if (status != KF_OK && q.made) kf_quickstart_undo(folder);
  if (q.lock >= 0) close(q.lock);
  kf_report_clear(&q.report);
  kf_text_free(q.text);
  kf_class_names_free(q.names);
  kf_stats_free(q.stats);
  kf_data_free(q.rows);
  kf_arena_free(&q.paths);
  return status;
}
