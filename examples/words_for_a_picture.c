/* words_for_a_picture.c - which text fits a picture best: CLIP's zero-shot classifier.
 *
 *     words_for_a_picture MODEL-DIR PICTURE TEXT...
 *     words_for_a_picture clip photo.jpg "a photo of a cat" "a photo of a dog"
 *
 * MODEL-DIR is a folder as Hugging Face publishes CLIP models. Prints the cosine of the picture
 * with every text, best first. */
#include <koofu_encode.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double cosine(const float *x, const float *y, uint32_t dim) {
  double xy = 0, xx = 0, yy = 0;
  for (uint32_t i = 0; i < dim; i++) {
    xy += (double)x[i] * (double)y[i];
    xx += (double)x[i] * (double)x[i];
    yy += (double)y[i] * (double)y[i];
  }
  return xy / sqrt(xx * yy);
}

/* Prints texts by falling score; overwrites the scores. */
static void print(char **texts, double *scores, int n) {
  for (int printed = 0; printed < n; printed++) {
    int best = 0;
    for (int i = 1; i < n; i++)
      if (scores[i] > scores[best]) best = i;
    printf("%.4f  %s\n", scores[best], texts[best]);
    scores[best] = -2; /* below any cosine */
  }
}

static kf_status compare(kf_ctx *ctx, const kf_encoder *encoder, const char *picture, char **texts,
                         int n) {
  uint32_t dim = kf_encoder_dim(encoder);
  float *x = calloc(dim, sizeof *x), *y = calloc((size_t)n * dim, sizeof *y);
  double *scores = calloc((size_t)n, sizeof *scores);
  kf_status status = x != NULL && y != NULL && scores != NULL ? KF_OK : KF_ERR_MEM;
  if (status == KF_OK) status = kf_encode_images(ctx, encoder, &picture, 1, x, NULL);
  if (status == KF_OK)
    status = kf_encode_texts(ctx, encoder, (const char *const *)texts, (uint64_t)n, y);
  for (int i = 0; i < n && status == KF_OK; i++) scores[i] = cosine(x, y + (size_t)i * dim, dim);
  if (status == KF_OK) print(texts, scores, n);
  free(scores);
  free(y);
  free(x);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: words_for_a_picture MODEL-DIR PICTURE TEXT...\n");
    return 2;
  }
  kf_ctx *ctx = NULL;
  kf_encoder *encoder = NULL;
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK) status = kf_encoder_load(ctx, argv[1], NULL, &encoder);
  if (status == KF_OK) status = compare(ctx, encoder, argv[2], argv + 3, argc - 3);
  if (status != KF_OK)
    fprintf(stderr, "words_for_a_picture: %s: %s\n", kf_status_name(status), kf_errmsg(ctx));
  kf_encoder_free(encoder);
  kf_ctx_free(ctx);
  return status == KF_OK ? 0 : 1;
}
