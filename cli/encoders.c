/* encoders.c - encoders and pictures, as the commands that use them need them. */
#include "encoders.h"
#include "format.h"
#include "outputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int load_encoder(cli_run *cli, const char *folder, tower_use use, kf_encoder **out) {
  const cli_args *a = &cli->args;
  kf_encoder_options options = {.precision = (kf_precision)a->encoder.precision,
                                .images = use == TOWER_TEXT ? KF_OFF : KF_ON,
                                .text = use == TOWER_IMAGES ? KF_OFF : KF_ON,
                                .max_pixels = (uint64_t)a->encoder.max_pixels.value};
  kf_status status = kf_encoder_load(cli->ctx, folder, &options, out);
  if (status != KF_OK) return fail(cli, status);
  progress_end(cli);
  const kf_encoder *e = *out;
  if (use != TOWER_TEXT && kf_encoder_image_size(e) == 0)
    return fail_with(cli, EXIT_USAGE, "%s: the model has no image tower", folder);
  if (cli->args.common.verbose)
    say(cli, "encoder %s: rows of %u, %s, %s of weights", folder, kf_encoder_dim(e),
        kf_encoder_precision(e) == KF_PRECISION_F32 ? "f32" : "bf16",
        show_bytes(kf_encoder_bytes(e)).text);
  return EXIT_OK;
}

/* --- text -------------------------------------------------------------------------------------- */

/* Prompts on their way to memory. */
typedef struct prompt_writer {
  FILE *file;
  encoded_text *out;
  size_t room; /* for labels */
  int failed;
} prompt_writer;

static void keep_prompt(void *argument, size_t class, const char *template, const char *name,
                        size_t length) {
  prompt_writer *w = argument;
  encoded_text *t = w->out;
  if (t->n == w->room && !w->failed) {
    size_t room = w->room ? 2 * w->room : 1024;
    int32_t *labels = realloc(t->labels, room * sizeof *labels);
    if (labels)
      t->labels = labels, w->room = room;
    else
      w->failed = 1;
  }
  if (w->failed) return;
  print_prompt(w->file, template, name, length);
  putc('\0', w->file);
  t->labels[t->n++] = (int32_t) class;
}

static int keep_prompts(cli_run *cli, const prompt_set *set, encoded_text *out) {
  size_t bytes = 0;
  prompt_writer w = {.file = open_memstream(&out->bytes, &bytes), .out = out};
  if (!w.file) return fail(cli, KF_ERR_MEM);
  prompts_each(set, cli->args.prompts.all_names, keep_prompt, &w);
  int failed = ferror(w.file);
  if (fclose(w.file) != 0 || failed || w.failed) return fail(cli, KF_ERR_MEM);
  out->texts = calloc(out->n + 1, sizeof *out->texts);
  out->names = calloc(set->n_classes + 1, sizeof *out->names);
  if (!out->texts || !out->names) return fail(cli, KF_ERR_MEM);
  const char *at = out->bytes;
  for (uint64_t i = 0; i < out->n; i++, at += strlen(at) + 1) out->texts[i] = at;
  for (size_t k = 0; k < set->n_classes; k++) out->names[k] = set->classes[k].label;
  return EXIT_OK;
}

static int encode_texts(cli_run *cli, const kf_encoder *encoder, uint32_t n_classes,
                        encoded_text *t) {
  uint32_t dim = kf_encoder_dim(encoder);
  t->rows = calloc(t->n, dim * sizeof *t->rows);
  if (!t->rows) return fail(cli, KF_ERR_MEM);
  kf_status status = kf_encode_texts(cli->ctx, encoder, t->texts, t->n, t->rows);
  if (status == KF_OK)
    status =
        kf_data_open_memory(cli->ctx, t->rows, t->n, dim, t->labels, t->names, n_classes, &t->data);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

int encode_prompts(cli_run *cli, const kf_encoder *encoder, const prompt_set *set,
                   encoded_text *out) {
  int result = keep_prompts(cli, set, out);
  return result == EXIT_OK ? encode_texts(cli, encoder, (uint32_t)set->n_classes, out) : result;
}

int encode_lines(cli_run *cli, const kf_encoder *encoder, const line_list *lines,
                 encoded_text *out) {
  out->n = lines->n;
  out->texts = calloc(lines->n, sizeof *out->texts);
  if (!out->texts) return fail(cli, KF_ERR_MEM);
  memcpy(out->texts, lines->items, lines->n * sizeof *out->texts);
  return encode_texts(cli, encoder, 0, out);
}

void encoded_text_free(encoded_text *t) {
  kf_data_free(t->data);
  free(t->bytes);
  free(t->texts);
  free(t->labels);
  free(t->names);
  free(t->rows);
}

/* --- pictures ---------------------------------------------------------------------------------- */

int open_pictures(cli_run *cli, size_t first, kf_pictures **out) {
  const cli_list *operands = &cli->args.operands;
  const char *list = cli->args.pictures.list;
  if (list && operands->n > first)
    return fail_usage(cli, "'%s' is one argument too many with --list", operands->items[first]);
  if (!list && operands->n == first)
    return fail_usage(cli, "the pictures are missing (folders, pictures, or --list FILE)");
  kf_status status =
      list ? kf_pictures_open_list(cli->ctx, list, out)
           : kf_pictures_open(cli->ctx, operands->items + first, operands->n - first, out);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

/* The rate is of this run, not of those before it. */
static void say_embedded(cli_run *cli, const char *path, const kf_embed_report *r, double seconds) {
  say_data_written(cli, path);
  uint64_t fresh = r->rows + r->skipped - r->resumed;
  if (fresh > 0 && seconds > 0) say(cli, "%s pictures/s", show_rate((double)fresh / seconds).text);
  if (r->resumed > 0)
    say(cli, "%s done by an earlier run",
        show_counted(r->resumed, "picture was", "pictures were").text);
  if (r->skipped > 0)
    say(cli, "left out %s that cannot be read",
        show_counted(r->skipped, "picture", "pictures").text);
}

/* What a run that was stopped has left, if it was more than its first shard. */
static void say_kept(cli_run *cli, const char *path) {
  char *parts;
  if (asprintf(&parts, "%s.parts", path) < 0) return;
  if (access(parts, F_OK) == 0)
    say(cli, "shards that were finished are kept: the same command goes on from them");
  free(parts);
}

int embed_pictures(cli_run *cli, const kf_encoder *encoder, const kf_pictures *pictures,
                   const char *path) {
  const cli_args *a = &cli->args;
  kf_embed_options options = {.dtype = (kf_dtype)a->dtype,
                              .normalize = a->pictures.normalize,
                              .skip_bad = a->data.skip_bad,
                              .shard = (uint32_t)a->pictures.shard.value,
                              .resume = a->pictures.no_resume ? KF_OFF : KF_ON};
  kf_embed_report report;
  double begun = now();
  kf_status status = kf_embed(cli->ctx, encoder, pictures, &options, path, &report);
  int result = status == KF_OK ? EXIT_OK : fail(cli, status);
  if (status == KF_ERR_CANCELLED) say_kept(cli, path);
  if (status != KF_OK) return result;
  say_embedded(cli, path, &report, now() - begun);
  return EXIT_OK;
}
