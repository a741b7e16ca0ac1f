/* encoders.c - encoders and pictures that the options name, and queries: rows or pictures. */
#include "inputs.h"
#include "sink.h"

#include <unistd.h>

int load_encoder(cli_run *cli, const char *folder, tower_use use, kf_encoder **out) {
  const cli_args *a = &cli->args;
  kf_encoder_options options = {.precision = (kf_precision)a->encoder.precision,
                                .images = use == TOWER_TEXT ? KF_OFF : KF_ON,
                                .text = use == TOWER_IMAGES ? KF_OFF : KF_ON,
                                .max_pixels = (uint64_t)a->encoder.max_pixels.value};
  TRY(own_encoder(cli, kf_encoder_load(cli->ctx, folder, &options, out), out));
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

int open_pictures(cli_run *cli, size_t first, kf_pictures **out) {
  const cli_list *operands = &cli->args.operands;
  const char *list = cli->args.pictures.list;
  if (list && operands->n > first)
    return fail_usage(cli, "unexpected argument '%s' with --list", operands->items[first]);
  if (!list && operands->n == first)
    return fail_usage(cli, "missing argument: PICTURES (files or folders, or --list FILE)");
  const struct data_args *d = &cli->args.data;
  kf_pictures_options options = {.label_key = cli->args.pictures.label_key,
                                 .labels = d->labels.n ? d->labels.items[0] : NULL,
                                 .id_column = d->id_column,
                                 .label_column = d->label_column,
                                 .skip_bad = d->skip_bad};
  if (list) TRY(refuse(cli, "labels label-key", "--list"));
  if (d->labels.n) TRY(refuse(cli, "label-key", "--labels"));
  if (d->labels.n > 1) return fail_usage(cli, "--labels: give one file for all pictures");
  if (!d->labels.n) TRY(need(cli, "label-column id-column", "--labels FILE"));
  return own_pictures(cli,
                      list ? kf_pictures_open_list(cli->ctx, list, out)
                           : kf_pictures_open_with(cli->ctx, operands->items + first,
                                                   operands->n - first, &options, out),
                      out);
}

int open_samples(cli_run *cli, size_t first, label_use use, const kf_model *model,
                 const kf_gallery *gallery, kf_data **out) {
  if (!cli->args.encoder.folder) return open_data(cli, first, use, out);
  kf_reader_options options = {.skip_bad = cli->args.data.skip_bad};
  kf_pictures *pictures = NULL;
  kf_encoder *encoder = NULL;
  TRY(refuse(cli, "tensor column label-tensor classes order rank-files only", "--encoder"));
  TRY(open_pictures(cli, first, &pictures));
  TRY(load_encoder(cli, cli->args.encoder.folder, TOWER_IMAGES, &encoder));
  cli_queries taken = {.encoder = encoder, .dim = kf_encoder_dim(encoder)};
  TRY(check_queries(cli, &taken, model, model ? NULL : gallery));
  TRY(own_data(cli, kf_data_new_from_pictures(cli->ctx, encoder, pictures, &options, out), out));
  uint64_t bad = kf_pictures_count(pictures) - kf_data_rows(*out);
  if (bad)
    say(cli, "left out %s that cannot be read", show_counted(bad, "picture", "pictures").text);
  return EXIT_OK;
}

void say_pictures(cli_run *cli, const kf_embed_report *r, const char *path) {
  if (r->unchanged)
    say(cli, "%s is up to date: %s, none changed; --no-resume embeds them again", path,
        show_counted(r->rows, "picture", "pictures").text);
  else if (r->reused > 0)
    say(cli, "%s taken from %s as it was; --no-resume embeds them again",
        show_counted(r->reused, "picture was", "pictures were").text, path);
  if (r->resumed > 0)
    say(cli, "%s done by an earlier run",
        show_counted(r->resumed, "picture was", "pictures were").text);
  if (r->skipped > 0)
    say(cli, "left out %s that cannot be read",
        show_counted(r->skipped, "picture", "pictures").text);
}

void say_kept(cli_run *cli, const char *path) {
  const char *parts = own_format(cli, "%s.parts", path);
  if (parts && access(parts, F_OK) == 0)
    say(cli, "finished shards are kept; run the same command again to continue");
}

kf_embed_options embed_options_of(const cli_args *a) {
  return (kf_embed_options){.dtype = (kf_dtype)a->dtype,
                            .normalize = a->pictures.normalize ? KF_ON : KF_OFF,
                            .skip_bad = a->data.skip_bad,
                            .shard = (uint32_t)a->pictures.shard.value,
                            .resume = a->pictures.no_resume ? KF_OFF : KF_ON,
                            .metadata = a->pictures.metadata};
}

int queries_open(cli_run *cli, size_t first, cli_queries *out) {
  const cli_args *a = &cli->args;
  if (!a->encoder.folder) {
    TRY(open_data(cli, first, out->labelled ? LABELS_WANTED : LABELS_IGNORED, &out->data));
    out->n = kf_data_rows(out->data);
    out->dim = kf_data_dim(out->data);
    return EXIT_OK;
  }
  TRY(refuse(cli, "tensor labels", "--encoder"));
  TRY(open_pictures(cli, first, &out->pictures));
  TRY(load_encoder(cli, a->encoder.folder, TOWER_IMAGES, &out->encoder));
  out->n = kf_pictures_count(out->pictures);
  out->dim = kf_encoder_dim(out->encoder);
  return EXIT_OK;
}

int queries_start(cli_run *cli, cli_queries *q, uint64_t *room) {
  uint64_t pictures = (uint64_t)KF_PICTURE_BLOCK * kf_ctx_ranks(cli->ctx);
  uint64_t most = q->encoder && q->n > pictures ? pictures : q->n;
  if (*room > most) *room = most;
  if (*room == 0) *room = 1;
  kf_reader_options options = {.block = *room, .skip_bad = cli->args.data.skip_bad};
  kf_status status =
      q->texts ? kf_reader_open_texts(cli->ctx, q->encoder, q->texts, q->n, &options, &q->reader)
      : q->pictures
          ? kf_reader_open_pictures(cli->ctx, q->encoder, q->pictures, &options, &q->reader)
          : kf_reader_open_data(cli->ctx, q->data, &options, &q->reader);
  return own_reader(cli, status, &q->reader);
}
