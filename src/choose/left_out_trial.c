/* left_out_trial.c - leave-one-out at one lambda: products with all class means for a batch of
 * rows, scores block by block (left_out_block.c), then the likelihood row by row (left_out.c has
 * the formulas). */
#include "choose/left_out_internal.h"

#include <math.h>
#include <string.h>

/* Rows of a batch. */
#define BATCH_PRODUCTS (1u << 17) /* about this many products with class means, but */
#define WIDE_BATCH     64u        /* no fewer rows than this: each call packs all class means */
#define LEAST_BATCH    16u        /* at least, unless there are fewer rows */
#define MOST_BATCH     512u       /* at most, unless a group has more */

typedef struct batch {
  uint64_t first, last; /* of the chosen blocks */
} batch;

/* rows: of the largest batch. */
typedef struct kf_left_out_workspace {
  uint64_t *at;       /* [rows] indices in the plan */
  uint32_t *own;      /* [rows] index of the row's class in `classes` */
  uint32_t *classes;  /* [rows] the different classes of the batch */
  double *whitened;   /* [D][rows] in columns */
  double *z;          /* [rows][n_dirs] along the directions of class means */
  double *columns;    /* [n_dirs][2 rows] z, then the means of `classes`, in columns */
  double *product[3]; /* [2 rows][n] */
  float *columns_f32, *product_f32[3]; /* for products in f32, in the same memory */
  float *floats;                       /* [rows][D + n_dirs] for kf_view_turn */
  double *wide;                        /* [2 r][D] of a block */
  double *u;                           /* [2 r][n_dirs] of a block */
  double *scores;                      /* [r][n] */
  double *text;                        /* [rows][n] */
  double *both, *powers, *seen;        /* [n], [2n], [n_classes] */
  double *weights;                     /* [n] */
  kf_block block;
} kf_left_out_workspace;

typedef struct trial {
  kf_left_out *l;
  const kf_left_out_trial *asked;
  const kf_left_out_point *points;
  size_t n_points;
  bool *chosen;    /* [blocks of the plan] */
  bool *in_part;   /* [blocks of the plan] */
  uint64_t *large; /* [n_large] chosen blocks to fit again without */
  uint64_t n_large;
  uint64_t *blocks; /* [n_blocks] the other chosen blocks */
  uint64_t n_blocks;
  uint64_t *of_class, *next; /* [n], [blocks of the plan] lists of `blocks` by class, 0 ends one */
  batch *batches;
  uint64_t n_batches;
  kf_range own;               /* batches of this rank */
  kf_range own_large;         /* large blocks of this rank */
  kf_likelihood *likelihoods; /* [threads][2][n_points]: other rows, then those of the part */
  kf_arena arena;
} trial;

/* --- memory ----------------------------------------------------------------------------------- */

/* Many rows make products fast, but all threads of all ranks need batches. */
static uint64_t batch_limit(const kf_left_out *l) {
  uint64_t limit = BATCH_PRODUCTS / l->n, each = l->rows.n / (4 * (uint64_t)l->ctx->ranks.threads);
  if (limit < WIDE_BATCH) limit = WIDE_BATCH;
  if (limit > each) limit = each;
  return limit > MOST_BATCH ? MOST_BATCH : limit < LEAST_BATCH ? LEAST_BATCH : limit;
}

static void make_workspace(const kf_left_out *l, kf_left_out_workspace *b, kf_arena *arena) {
  uint64_t dim = l->dim, rows = l->most_rows, n = l->n, r2 = 2 * l->largest;
  uint64_t n_dirs = kf_view_most_directions(l);
  KF_TAKE(arena, b->at, rows);
  KF_TAKE(arena, b->own, rows);
  KF_TAKE(arena, b->classes, rows);
  KF_TAKE(arena, b->whitened, rows * dim);
  KF_TAKE(arena, b->z, rows * n_dirs);
  KF_TAKE(arena, b->columns, 2 * rows * n_dirs);
  if (!l->euclidean) KF_TAKE(arena, b->floats, rows * (dim + n_dirs));
  b->columns_f32 = (float *)(void *)b->columns;
  for (uint32_t m = 0; m < l->view.metrics; m++) {
    KF_TAKE(arena, b->product[m], 2 * rows * n);
    b->product_f32[m] = (float *)(void *)b->product[m];
    KF_TAKE(arena, b->block.product[m], r2 * n);
  }
  KF_TAKE(arena, b->wide, r2 * dim);
  KF_TAKE(arena, b->u, r2 * n_dirs);
  KF_TAKE(arena, b->scores, l->largest * n);
  if (l->with_text) {
    KF_TAKE(arena, b->text, rows * n);
    KF_TAKE(arena, b->both, n);
  }
  KF_TAKE(arena, b->powers, 2 * n);
  KF_TAKE(arena, b->seen, l->stats->n_classes);
  if (l->weights != NULL) KF_TAKE(arena, b->weights, n);
  kf_block_make(&b->block, &l->view, l->largest, n_dirs, arena);
}

void kf_left_out_make_workspaces(kf_left_out *l, kf_arena *arena) {
  uint64_t limit = batch_limit(l);
  l->most_rows = limit < l->largest ? l->largest : limit < l->rows.n ? limit : l->rows.n;
  KF_TAKE_ZERO(arena, l->workspaces, l->ctx->threads);
  for (unsigned i = 0; !arena->failed && i < l->ctx->threads; i++)
    make_workspace(l, &l->workspaces[i], arena);
}

/* --- products --------------------------------------------------------------------------------- */

/* The index of a class in `classes`, to which it is added if it is new. Rows of a class usually
 * follow each other, so the search begins at the end. */
static uint32_t class_in_batch(kf_left_out_workspace *b, uint32_t place, uint32_t *n_classes) {
  for (uint32_t k = *n_classes; k > 0; k--)
    if (b->classes[k - 1] == place) return k - 1;
  b->classes[*n_classes] = place;
  return (*n_classes)++;
}

/* Turns the n rows of a batch to the directions of class means. Without shrinking they are only
 * whitened. */
static void turn_rows(const kf_view *v, kf_left_out_workspace *b, uint64_t n) {
  size_t dim = v->l->dim;
  for (uint64_t i = 0; i < n; i++) {
    const double *x = v->l->turned[b->at[i]];
    for (size_t d = 0; d < dim; d++)
      *(v->shrunk ? &b->whitened[d * n + i] : &b->z[i * dim + d]) = x[d] * v->root[d];
  }
  if (v->shrunk) kf_view_turn(v, b->whitened, n, b->floats, b->z);
}

/* Multiplies the rows of a batch, and the means of its classes, with all class means. */
static void multiply(const kf_left_out *l, kf_left_out_workspace *b, uint64_t n) {
  const kf_view *v = &l->view;
  size_t n_dirs = v->n_dirs;
  uint32_t n_classes = 0;
  for (uint64_t i = 0; i < n; i++)
    b->own[i] = class_in_batch(b, (uint32_t)l->place[l->rows.label[b->at[i]]], &n_classes);
  turn_rows(v, b, n);
  uint64_t all = n + n_classes;
  for (uint64_t i = 0; i < all; i++) {
    const double *x = i < n ? b->z + i * n_dirs : v->means + (size_t)b->classes[i - n] * n_dirs;
    for (size_t d = 0; d < n_dirs; d++)
      if (v->fast)
        b->columns_f32[d * all + i] = (float)x[d];
      else
        b->columns[d * all + i] = x[d];
  }
  for (uint32_t m = 0; m < v->metrics; m++) {
    kf_matrix by = {.depth = n_dirs, .n = l->n, .b = v->columns[m]};
    if (v->fast)
      kf_times_f32(l->ctx->kernels, b->columns_f32, all, v->columns_f32[m], l->n, n_dirs,
                   b->product_f32[m]);
    else
      kf_matrix_times(l->ctx->kernels, &by, b->columns, all, b->product[m]);
  }
}

/* The cosines of rows with text. `whitened` holds the rows in columns. */
static void multiply_text(const kf_left_out *l, kf_left_out_workspace *b, uint64_t n) {
  size_t dim = l->dim;
  for (uint64_t i = 0; i < n; i++)
    for (size_t d = 0; d < dim; d++) b->whitened[d * n + i] = l->turned[b->at[i]][d];
  kf_matrix_times(l->ctx->kernels, &l->text, b->whitened, n, b->text);
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < l->n; j++) b->text[i * l->n + j] /= l->length[b->at[i]];
}

/* Sets the products of row k of a block, which is row i of a batch of n. */
static void set_products(const kf_view *v, kf_left_out_workspace *b, uint64_t i, uint64_t n,
                         uint64_t k) {
  uint64_t classes = v->l->n, row = i * classes, mean = (n + b->own[i]) * classes;
  for (uint32_t m = 0; m < v->metrics; m++) {
    double *within = b->block.product[m] + k * classes, *whole = within + b->block.r * classes;
    const double *exact = b->product[m];
    const float *fast = b->product_f32[m];
    for (uint64_t j = 0; j < classes; j++) {
      whole[j] = v->fast ? (double)fast[row + j] : exact[row + j];
      within[j] = whole[j] - (v->fast ? (double)fast[mean + j] : exact[mean + j]);
    }
  }
}

/* Sets U and the products of a block whose first row is row i of a batch of n. */
static void set_block(const kf_left_out *l, kf_left_out_workspace *b, uint64_t i, uint64_t n) {
  const kf_view *v = &l->view;
  kf_block *to = &b->block;
  uint64_t dim = l->dim, n_dirs = v->n_dirs, r = to->r;
  to->label = l->rows.label + b->at[i];
  to->wide = b->wide;
  to->u = b->u;
  for (uint64_t k = 0; k < r; k++) {
    uint64_t place = b->classes[b->own[i + k]];
    const double *x = l->turned[b->at[i + k]], *mean = l->means + place * dim;
    for (uint64_t d = 0; d < dim; d++) {
      b->wide[k * dim + d] = (x[d] - mean[d]) * v->root[d];
      b->wide[(r + k) * dim + d] = x[d] * v->root[d];
    }
    set_products(v, b, i + k, n, k);
    const double *z = b->z + (i + k) * n_dirs, *of_class = v->means + place * n_dirs;
    for (uint64_t d = 0; d < n_dirs; d++) {
      b->u[k * n_dirs + d] = z[d] - of_class[d];
      b->u[(r + k) * n_dirs + d] = z[d];
    }
  }
}

/* --- rows ------------------------------------------------------------------------------------- */

static void show_scores(const trial *t, kf_left_out_workspace *b, uint64_t at, const double *scores,
                        size_t worker) {
  const kf_left_out *l = t->l;
  for (uint32_t k = 0; k < l->stats->n_classes; k++)
    b->seen[k] = l->place[k] >= 0 ? scores[l->place[k]] : NAN;
  t->asked->see(t->asked->argument, l->rows.row[at], l->rows.label[at], b->seen, worker);
}

/* The number of rows of each class without the block. */
static void set_weights(const kf_left_out *l, kf_left_out_workspace *b) {
  memcpy(b->weights, l->weights, l->n * sizeof *b->weights);
  for (uint32_t k = 0; k < b->block.r; k++) b->weights[l->place[b->block.label[k]]]--;
}

/* Subtracts priors from the scores of the block's rows. */
static void lower_scores(const kf_left_out *l, kf_left_out_workspace *b, double prior) {
  for (uint32_t j = 0; j < l->n; j++) {
    if (!(b->weights[j] > 0)) continue; /* NaN already */
    double less = kf_prior2(prior, l->view.largest, b->weights[j]);
    for (uint32_t k = 0; k < b->block.r; k++) b->scores[(size_t)k * l->n + j] -= less;
  }
}

/* Adds the rows of a block, whose first row is row i of the batch, to the sums. */
static void judge_block(const trial *t, kf_left_out_workspace *b, uint64_t i, bool in_part,
                        size_t worker) {
  const kf_left_out *l = t->l;
  kf_likelihood *sums = t->likelihoods + (2 * worker + in_part) * t->n_points;
  bool lowered = l->weights != NULL && t->asked->prior > 0;
  if (l->weights != NULL) set_weights(l, b);
  if (lowered) lower_scores(l, b, t->asked->prior);
  for (uint32_t k = 0; k < b->block.r; k++) {
    uint64_t at = b->at[i + k];
    uint32_t own = (uint32_t)l->place[l->rows.label[at]];
    const double *scores = b->scores + (size_t)k * l->n, *given = scores;
    bool hit = false;
    if (isnan(scores[own])) continue;
    for (size_t p = 0; p < t->n_points; p++) {
      if (l->with_text) {
        for (uint32_t j = 0; j < l->n; j++)
          b->both[j] = b->text[(i + k) * l->n + j] + t->points[p].alpha * scores[j];
        given = b->both;
      }
      if (t->asked->hits)
        hit = kf_likelihood_count(&sums[p], given, l->n, own) == 0;
      else
        kf_likelihood_add(&sums[p], given, lowered ? NULL : b->weights, l->n, own, b->powers);
      if (p == 0 && hit && t->asked->right != NULL)
        t->asked->right[at] |= UINT64_C(1) << t->asked->bit;
      if (p == 0 && t->asked->see != NULL) show_scores(t, b, at, given, worker);
    }
  }
}

static uint64_t rows_in(const kf_left_out *l, uint64_t block) {
  return l->start[block + 1] - l->start[block];
}

static uint64_t n_in(kf_range range) { return range.last - range.first; }

/* Reports the blocks and batches that this rank has done, together with those of other ranks. */
static kf_status report(const trial *t, uint64_t done, size_t worker, kf_err *err) {
  uint64_t all = t->n_large + t->n_batches, own = n_in(t->own_large) + n_in(t->own);
  if (worker == 0 && t->asked->see == NULL) done = kf_done_by_all(t->l->ctx, done, own, all);
  return kf_task_progress(t->l->ctx, worker, t->asked->what, done, all, err);
}

static kf_status try_batch(void *argument, size_t number, size_t worker, kf_err *err) {
  const trial *t = argument;
  const kf_left_out *l = t->l;
  uint64_t i = t->own.first + number;
  kf_left_out_workspace *b = &l->workspaces[worker];
  uint64_t n = 0, row = 0;
  for (uint64_t k = t->batches[i].first; k < t->batches[i].last; k++)
    for (uint64_t r = l->start[t->blocks[k]]; r < l->start[t->blocks[k] + 1]; r++) b->at[n++] = r;
  multiply(l, b, n);
  if (l->with_text) multiply_text(l, b, n);
  for (uint64_t k = t->batches[i].first; k < t->batches[i].last; k++, row += b->block.r) {
    b->block.r = (uint32_t)rows_in(l, t->blocks[k]);
    set_block(l, b, row, n);
    kf_block_score(&l->view, &b->block, b->scores);
    judge_block(t, b, row, t->in_part[t->blocks[k]], worker);
  }
  return report(t, n_in(t->own_large) + number + 1, worker, err);
}

/* Fits again without each of the large blocks. */
static kf_status try_large(trial *t, uint64_t i) {
  const kf_left_out *l = t->l;
  kf_ctx *ctx = l->ctx;
  kf_arena arena = {0};
  kf_left_out_workspace b = {0};
  uint64_t first = l->start[t->large[i]], r = rows_in(l, t->large[i]);
  b.block.r = (uint32_t)r;
  b.block.label = l->rows.label + first;
  KF_TAKE(&arena, b.at, r);
  KF_TAKE(&arena, b.scores, r * l->n);
  KF_TAKE(&arena, b.powers, 2 * (uint64_t)l->n);
  if (l->with_text) {
    KF_TAKE(&arena, b.whitened, r * l->dim);
    KF_TAKE(&arena, b.text, r * l->n);
    KF_TAKE(&arena, b.both, l->n);
  }
  if (t->asked->see != NULL) KF_TAKE(&arena, b.seen, l->stats->n_classes);
  if (l->weights != NULL) KF_TAKE(&arena, b.weights, l->n);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK)
    status = kf_again_score(&l->view, r, l->rows.label + first, l->turned[first], b.scores);
  if (status == KF_OK) {
    for (uint64_t k = 0; k < r; k++) b.at[k] = first + k;
    if (l->with_text) multiply_text(l, &b, r);
    judge_block(t, &b, 0, t->in_part[t->large[i]], 0);
    status = report(t, i + 1 - t->own_large.first, 0, &ctx->err);
  }
  kf_arena_free(&arena);
  return status;
}

/* --- together --------------------------------------------------------------------------------- */

/* The number of blocks that have about this many rows; 0: all. */
static uint64_t blocks_for(const kf_left_out *l, uint64_t rows) {
  if (rows == 0 || rows >= l->rows.n) return l->n_blocks;
  uint64_t share = (uint64_t)((kf_i128)l->n_blocks * rows / l->rows.n);
  return share > 0 ? share : 1;
}

/* Chooses the blocks of the part and then other blocks, each spread evenly. */
static void choose_blocks(trial *t) {
  const kf_left_out *l = t->l;
  uint64_t part = t->asked->part > 0 ? blocks_for(l, t->asked->part) : 0, seen = 0;
  uint64_t all = blocks_for(l, t->asked->most), others = l->n_blocks - part;
  uint64_t skip = t->asked->skip > 0 ? blocks_for(l, t->asked->skip) : 0;
  for (uint64_t k = 0; k < l->n_blocks; k++) {
    t->in_part[k] = kf_takes(k, part, l->n_blocks);
    t->chosen[k] = t->in_part[k] || (all > part && kf_takes(seen++, all - part, others));
    if (kf_takes(k, skip, l->n_blocks)) t->chosen[k] = false;
  }
}

/* The most rows of a batch, so that all threads get about equally many batches of these rows. */
static uint64_t rows_of_batch(const kf_left_out *l, uint64_t rows) {
  if (rows == 0) return 0;
  uint64_t threads = l->ctx->ranks.threads, batches = (rows + l->most_rows - 1) / l->most_rows;
  batches = (batches + threads - 1) / threads * threads;
  uint64_t share = (rows + batches - 1) / batches;
  return share > LEAST_BATCH ? share : l->most_rows < LEAST_BATCH ? l->most_rows : LEAST_BATCH;
}

/* Rows of one class follow each other, whatever their order in the data, so that a batch has few
 * class means to multiply with all others. */
static void make_batches(trial *t) {
  const kf_left_out *l = t->l;
  uint64_t all = 0, rows = 0;
  for (uint64_t k = 0; k < l->n_blocks; k++) {
    uint64_t *head = &t->of_class[l->place[l->rows.label[l->start[k]]]];
    if (!t->chosen[k]) continue;
    if (kf_again_pays(l, rows_in(l, k))) {
      t->large[t->n_large++] = k;
      continue;
    }
    t->next[k] = *head;
    *head = k + 1;
    all += rows_in(l, k);
  }
  uint64_t most = rows_of_batch(l, all);
  for (uint32_t j = 0; j < l->n; j++)
    for (uint64_t k = t->of_class[j]; k > 0; k = t->next[k - 1]) {
      if (t->n_batches == 0 || rows + rows_in(l, k - 1) > most) {
        t->batches[t->n_batches++] = (batch){.first = t->n_blocks};
        rows = 0;
      }
      rows += rows_in(l, k - 1);
      t->blocks[t->n_blocks++] = k - 1;
      t->batches[t->n_batches - 1].last = t->n_blocks;
    }
}

static kf_status plan_trial(trial *t) {
  const kf_left_out *l = t->l;
  KF_TAKE(&t->arena, t->chosen, l->n_blocks);
  KF_TAKE(&t->arena, t->in_part, l->n_blocks);
  KF_TAKE(&t->arena, t->large, l->n_blocks);
  KF_TAKE(&t->arena, t->blocks, l->n_blocks);
  KF_TAKE(&t->arena, t->next, l->n_blocks);
  KF_TAKE_ZERO(&t->arena, t->of_class, l->n);
  KF_TAKE(&t->arena, t->batches, l->n_blocks);
  KF_TAKE(&t->arena, t->likelihoods, 2 * l->ctx->threads * t->n_points);
  if (t->arena.failed) return kf_fail_memory(&l->ctx->err);
  for (size_t i = 0; i < 2 * l->ctx->threads * t->n_points; i++)
    t->likelihoods[i] = kf_likelihood_new(l->euclidean);
  choose_blocks(t);
  make_batches(t);
  return kf_left_out_read(t->l, t->chosen);
}

/* Ranks share blocks and batches, unless the caller wants to see every row. */
static kf_status try_own(trial *t) {
  kf_ctx *ctx = t->l->ctx;
  const kf_ranks alone = {.size = 1}, *ranks = t->asked->see == NULL ? &ctx->ranks : &alone;
  t->own_large = kf_share_of(ranks, t->n_large, 1);
  t->own = kf_share_of(ranks, t->n_batches, 1);
  kf_share_begin(ctx, 0);
  for (uint64_t i = t->own_large.first; i < t->own_large.last; i++) KF_TRY(try_large(t, i));
  return kf_parallel(ctx, (size_t)n_in(t->own), try_batch, t);
}

static void find_point(const trial *t, const kf_likelihood *sums, kf_left_out_point *point) {
  if (!t->asked->hits) {
    kf_likelihood_find(sums, point);
    return;
  }
  point->top1 = (uint64_t)sums->sums.top1;
  point->top5 = (uint64_t)sums->sums.top5;
}

static kf_status score_all(trial *t, kf_left_out_point *points, uint64_t *n) {
  kf_left_out *l = t->l;
  kf_ctx *ctx = l->ctx;
  size_t n_points = t->n_points;
  KF_TRY(plan_trial(t));
  kf_likelihood *others = t->likelihoods, *part = t->likelihoods + n_points;
  bool fast = t->asked->fast || l->fast_hits;
  KF_TRY(kf_view_set(&l->view, t->asked->lambda, t->asked->curve, fast));
  KF_TRY(try_own(t));
  for (size_t i = 2 * n_points; i < 2 * ctx->threads * n_points; i++)
    kf_likelihood_join(&t->likelihoods[i % (2 * n_points)], &t->likelihoods[i]);
  if (t->asked->see == NULL)
    KF_TRY(kf_likelihood_add_ranks(ctx, KF_OK, t->likelihoods, 2 * n_points));
  for (size_t p = 0; p < n_points; p++) {
    if (t->asked->of_part != NULL) find_point(t, &part[p], &t->asked->of_part[p]);
    kf_likelihood_join(&others[p], &part[p]);
    find_point(t, &others[p], &points[p]);
    *n = (uint64_t)others[p].sums.n;
  }
  return KF_OK;
}

kf_status kf_left_out_try(kf_left_out *l, const kf_left_out_trial *asked, kf_left_out_point *points,
                          size_t n_points, uint64_t *n) {
  trial t = {.l = l, .asked = asked, .points = points, .n_points = n_points};
  kf_status status = score_all(&t, points, n);
  kf_arena_free(&t.arena);
  return status;
}
