/* search_parts.c - the queries of 'koofu search'.
 *
 * Without an encoder they are rows. With one, an operand is a picture (a file, a folder or a
 * pattern) or words; consecutive operands of one kind make a part, so answers keep the order of
 * the command line. */
#include "search.h"

#include <dirent.h>
#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

/* The mean of this many texts is better than none (docs/text.md). */
enum { OWN_MEAN_LEAST = 10 };

/* Whether a pattern matches in the current folder. (Anything with a slash is a path.) */
static int matches_files(const char *pattern) {
  if (!strpbrk(pattern, "*?[")) return 0;
  DIR *folder = opendir(".");
  const struct dirent *entry = NULL;
  while (folder && (entry = readdir(folder)) && fnmatch(pattern, entry->d_name, FNM_PERIOD) != 0) {
  }
  if (folder) closedir(folder);
  return entry != NULL;
}

static int looks_like_file(const char *operand) {
  static const char *const endings[] = {
      ".jpg",   ".jpeg", ".png",    ".webp",  ".gif",   ".bmp",         ".tif",
      ".tiff",  ".npy",  ".npz",    ".csv",   ".tsv",   ".parquet",     ".txt",
      ".fvecs", ".fbin", ".f16bin", ".u8bin", ".i8bin", ".safetensors", NULL};
  const char *dot = strrchr(operand, '.');
  for (size_t i = 0; dot && endings[i]; i++)
    if (strcasecmp(dot, endings[i]) == 0) return 1;
  return strchr(operand, '/') != NULL;
}

/* Not an existing file, and not a name that only a missing file could have. */
static int is_words(const char *operand) {
  return access(operand, F_OK) != 0 && !matches_files(operand) && !looks_like_file(operand);
}

int check_search_text(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->encoder.folder)
    return refuse(cli, "text-queries", "--encoder: words are text and pictures are not");
  return a->search.text ? EXIT_OK
                        : need(cli, "text-mean", "--text-queries, or words with --encoder");
}

static int mean_of_data(cli_run *cli, const kf_data *data, const char *path, double *mean) {
  kf_status status = kf_text_mean(cli->ctx, data, mean);
  return status == KF_OK ? EXIT_OK : fail_in(cli, status, path);
}

static int mean_of_file(cli_run *cli, uint32_t dim, double *mean) {
  const char *path = cli->args.search.text_mean;
  kf_data_options options = {.inner_labels = KF_OFF};
  kf_data *data = NULL;
  TRY(own_data(cli, kf_data_open(cli->ctx, &path, 1, &options, &data), &data));
  if (kf_data_dim(data) != dim)
    return fail_with(cli, EXIT_BAD_DATA, "%s: has %u columns, the gallery takes %u", path,
                     kf_data_dim(data), dim);
  return mean_of_data(cli, data, path, mean);
}

static int find_mean(cli_run *cli, const kf_gallery *gallery, search_parts *all,
                     const cli_queries *q) {
  const char *file = cli->args.search.text_mean;
  int found = q->encoder || q->n >= OWN_MEAN_LEAST;
  if (!file && !kf_gallery_mapped(gallery)) return EXIT_OK;
  if (!file && !found)
    return fail_usage(cli,
                      "text in a mapped gallery needs a mean to subtract, and fewer than %d "
                      "queries have no mean of their own: give --text-mean FILE",
                      OWN_MEAN_LEAST);
  double *mean = own_memory(cli, q->dim, sizeof *mean);
  if (!mean) return fail(cli, KF_ERR_MEM);
  if (file) {
    TRY(mean_of_file(cli, q->dim, mean));
    all->mean = file;
  } else if (q->encoder) {
    TRY(result_of(cli, kf_encoder_text_mean(cli->ctx, q->encoder, mean)));
    all->mean = "everyday texts";
  } else {
    TRY(mean_of_data(cli, q->data, cli->args.operands.items[1], mean));
    all->mean = "the queries";
  }
  for (size_t i = 0; i < all->n; i++)
    if (all->parts[i].text) all->parts[i].text_mean = mean;
  return result_of(cli, kf_gallery_prepare_text(cli->ctx, gallery));
}

void say_search_text(cli_run *cli, const search_parts *all) {
  if (all->mean) say(cli, "the mean of %s is subtracted from text", all->mean);
}

static int open_rows(cli_run *cli, search_part *part) {
  const cli_list *operands = &cli->args.operands;
  for (size_t i = 1; i < operands->n; i++)
    if (is_words(operands->items[i]) && !strpbrk(operands->items[i], "*?[."))
      return fail_usage(cli, "'%s' is not a file; to search for words, give --encoder CLIP-DIR",
                        operands->items[i]);
  part->text = cli->args.search.text;
  return queries_open(cli, 1, &part->queries);
}

static int load_towers(cli_run *cli, int words, int pictures, kf_encoder **out) {
  const char *folder = cli->args.encoder.folder;
  TRY(load_encoder(cli, folder, !words ? TOWER_IMAGES : pictures ? TOWER_BOTH : TOWER_TEXT, out));
  if (words && kf_encoder_context(*out) == 0)
    return fail_with(cli, EXIT_USAGE, "%s: the model has no text tower, which words need", folder);
  return EXIT_OK;
}

static int open_part(cli_run *cli, kf_encoder *encoder, const char *const *operands, size_t n,
                     search_part *part) {
  cli_queries *q = &part->queries;
  q->encoder = encoder;
  q->dim = kf_encoder_dim(encoder);
  part->text = is_words(operands[0]);
  if (part->text) {
    q->texts = operands;
    q->n = n;
    return EXIT_OK;
  }
  TRY(own_pictures(cli, kf_pictures_open(cli->ctx, operands, n, &q->pictures), &q->pictures));
  q->n = kf_pictures_count(q->pictures);
  return EXIT_OK;
}

static int open_encoded(cli_run *cli, search_parts *all) {
  const cli_list *operands = &cli->args.operands;
  size_t n_words = 0;
  for (size_t i = 1; i < operands->n; i++) n_words += is_words(operands->items[i]) != 0;
  if (cli->args.search.text_mean && n_words == 0)
    return fail_usage(cli, "--text-mean is for words, and every query is a picture");
  TRY(refuse(cli, "tensor", "--encoder"));
  kf_encoder *encoder;
  TRY(load_towers(cli, n_words > 0, n_words + 1 < operands->n, &encoder));
  for (size_t i = 1, end; i < operands->n; i = end) {
    for (end = i + 1; end < operands->n; end++)
      if (is_words(operands->items[end]) != is_words(operands->items[i])) break;
    TRY(open_part(cli, encoder, operands->items + i, end - i, &all->parts[all->n]));
    all->n++;
  }
  return EXIT_OK;
}

int search_parts_open(cli_run *cli, search_parts *out) {
  out->parts = own_memory(cli, cli->args.operands.n, sizeof *out->parts);
  if (!out->parts) return fail(cli, KF_ERR_MEM);
  out->n = !cli->args.encoder.folder;
  TRY(cli->args.encoder.folder ? open_encoded(cli, out) : open_rows(cli, out->parts));
  for (size_t i = 0; i < out->n; i++) {
    search_part *part = &out->parts[i];
    part->first = out->queries;
    out->queries += part->queries.n;
    if (part->text) out->text += part->queries.n;
  }
  return EXIT_OK;
}

int search_parts_match(cli_run *cli, search_parts *all, const kf_gallery *gallery) {
  const search_part *text = NULL;
  for (size_t i = 0; i < all->n; i++) {
    TRY(check_queries(cli, &all->parts[i].queries, NULL, gallery));
    if (all->parts[i].text) text = &all->parts[i];
  }
  return text ? find_mean(cli, gallery, all, &text->queries) : EXIT_OK;
}

int search_parts_start(cli_run *cli, search_parts *all, uint64_t *room) {
  uint64_t most = 1;
  for (size_t i = 0; i < all->n; i++) {
    search_part *part = &all->parts[i];
    part->room = *room;
    TRY(queries_start(cli, &part->queries, &part->room));
    if (part->room > most) most = part->room;
  }
  *room = most;
  return EXIT_OK;
}

uint64_t search_parts_bad(const search_parts *all) {
  uint64_t n = 0;
  for (size_t i = 0; i < all->n; i++) n += kf_reader_bad(all->parts[i].queries.reader);
  return n;
}
