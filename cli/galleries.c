/* galleries.c - loads galleries, and checks what votes and searches need. */
#include "inputs.h"

int load_gallery(cli_run *cli, const char *path, uint64_t queries, kf_gallery **out) {
  kf_gallery_load_options options = {.rerank_from_disk = cli->args.search.rerank_from_disk,
                                     .queries = queries,
                                     .more = (const char *const *)cli->args.search.also.items,
                                     .n_more = cli->args.search.also.n};
  kf_status status = kf_gallery_load(cli->ctx, path, &options, out);
  return status == KF_OK ? own_gallery(cli, KF_OK, out) : fail_load(cli, status, path, "gallery");
}

int check_queries(cli_run *cli, const cli_queries *q, const kf_model *model,
                  const kf_gallery *gallery) {
  kf_ctx *ctx = cli->ctx;
  if (q->data)
    return result_of(cli, gallery ? kf_gallery_takes(ctx, gallery, q->data)
                                  : kf_model_takes(ctx, model, q->data));
  const kf_origin *other = gallery ? kf_gallery_origin(gallery) : kf_model_origin(model);
  uint32_t dim = gallery ? kf_gallery_dim_in(gallery) : kf_model_dim_in(model);
  if (q->dim != dim)
    return fail_with(cli, EXIT_BAD_DATA, "%s: gives %u columns, but the %s takes %u",
                     cli->args.encoder.folder, q->dim, gallery ? "gallery" : "model", dim);
  return result_of(cli, kf_origins_agree(ctx, kf_encoder_origin(q->encoder), other));
}

int take_voters(cli_run *cli) {
  cli_args *a = &cli->args;
  const char *path = a->operands.items[0];
  int found;
  TRY(check_kind(cli, path, "gallery", &found));
  if (!found) return EXIT_OK; /* loading it as a model says what is wrong */
  if (a->votes.gallery)
    return fail_usage(cli, "%s is a gallery, and so is %s: leave out --gallery, or give a model",
                      path, a->votes.gallery);
  TRY(need(cli,
           "text raw metric part probabilities no-reject errors per-class confusions wrong unknown",
           "a model, and %s is a gallery", path));
  a->votes.gallery = path;
  return EXIT_OK;
}

int check_vote_options(cli_run *cli) {
  const struct vote_args *v = &cli->args.votes;
  if (!v->gallery) return need(cli, "neighbours weighted", "--gallery GALLERY");
  return v->weighted ? EXIT_OK : need(cli, "temperature", "--weighted");
}

double vote_temperature(const cli_args *a) {
  return a->votes.temperature.given ? a->votes.temperature.value : 0.07;
}

double softmax_temperature(const cli_args *a) {
  return a->votes.gallery ? 0 : a->votes.temperature.value;
}

/* A gallery votes in the original space or in that of the model. */
static int check_voters(cli_run *cli, const kf_gallery *gallery, const kf_model *model) {
  const char *path = cli->args.votes.gallery;
  if (!kf_gallery_has_labels(gallery))
    return fail_with(cli, EXIT_BAD_DATA,
                     "%s: has no labels to vote with; 'koofu index' takes them with --labels",
                     path);
  if (!model) return EXIT_OK;
  if (kf_gallery_mapped(gallery) && !kf_gallery_made_with(gallery, model))
    return fail_with(
        cli, EXIT_BAD_DATA,
        "%s: was not made with %s; make it again with 'koofu index DATA --model MODEL'", path,
        cli->args.operands.items[0]);
  if (kf_gallery_dim_in(gallery) != kf_model_dim_in(model))
    return fail_with(cli, EXIT_BAD_DATA, "%s: takes %u columns, the model %u", path,
                     kf_gallery_dim_in(gallery), kf_model_dim_in(model));
  return result_of(cli,
                   kf_origins_agree(cli->ctx, kf_gallery_origin(gallery), kf_model_origin(model)));
}

int load_voters(cli_run *cli, const kf_model *model, kf_gallery **out) {
  TRY(load_gallery(cli, cli->args.votes.gallery, 0, out));
  return check_voters(cli, *out, model);
}

int check_k(cli_run *cli, const char *path, uint64_t most, uint32_t k) {
  if (most == 0)
    return fail_with(cli, EXIT_BAD_DATA, "%s: has one row, so there is no other to find", path);
  if (k <= most) return EXIT_OK;
  return fail_usage(cli,
                    "-k must be a whole number from 1 to %llu (the rows to search in), not '%u'",
                    (unsigned long long)most, k);
}

void say_k(cli_run *cli, const kf_k_choice *choice) {
  const kf_k_point *chosen = &choice->points[choice->k - 1],
                   *best = &choice->points[choice->best - 1];
  progress_clear(&cli->progress);
  say(cli, "k = %u is right for %s of %s %s; the best of 1 to %zu, k = %u, for %s", choice->k,
      show_percent(chosen->top1, choice->n).text, show_counted(choice->n, "row", "rows").text,
      choice->folds ? "in folds that their map has not seen" : "of the gallery left out in turn",
      choice->n_points, choice->best, show_percent(best->top1, choice->n).text);
}

int choose_k_auto(cli_run *cli, const kf_gallery *gallery, uint32_t *k) {
  const cli_args *a = &cli->args;
  kf_k_options options = {.weighted = a->votes.weighted, .temperature = vote_temperature(a)};
  kf_k_choice *choice;
  *k = kf_gallery_k(gallery);
  if (*k) {
    say(cli, "k = %u, from the gallery", *k);
    return EXIT_OK;
  }
  TRY(own_k_choice(cli, kf_k_choice_new(cli->ctx, gallery, &options, &choice), &choice));
  *k = choice->k;
  say_k(cli, choice);
  if (kf_gallery_mapped(gallery))
    say(cli, "if the map was fitted on these rows, this k is too small: 'koofu index -k auto' "
             "chooses it on rows that the map has not seen");
  return EXIT_OK;
}

int choose_k(cli_run *cli, const char *path, uint64_t most, uint32_t *k) {
  const cli_number *given = &cli->args.search.k;
  *k = given->given ? (uint32_t)given->value : most < 15 ? (uint32_t)most : 15;
  return check_k(cli, path, most, *k);
}
