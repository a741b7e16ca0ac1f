/* section_map.c - class prototypes on the first two discriminative directions.
 *
 * Up to a few thousand classes, each is a circle that shows its name under the pointer. Beyond
 * that, classes are points of one path per colour, and the cells of a grid show names, which keeps
 * the page small and fast. Some names are printed where there is space, those farthest from the
 * centre first. */
#include "report/sections.h"

#include <stdlib.h>

enum { WIDTH = 760, HEIGHT = 560, EDGE = 26, MAX_CIRCLES = 3000, MAX_LABELS = 56, NAME = 24 };
enum { COLUMNS = 48, ROWS = 36, COLOURS = 7, UNKNOWN = 5, PLAIN = 6, NAMES_IN_CELL = 5 };

typedef struct spot {
  uint32_t class;
  unsigned colour; /* which fifth of accuracy; UNKNOWN: no test rows; PLAIN: no analysis */
  double x, y;     /* in the picture */
  double r, far;   /* radius, and distance from the middle */
} spot;

typedef struct box {
  double left, top, right, bottom;
} box;

typedef struct map {
  const kf_page *page;
  size_t n;
  spot *spots; /* by class */
  spot *order; /* a copy, sorted for each use */
} map;

/* --- where classes are ------------------------------------------------------------------------ */

static unsigned colour_of(const kf_analysis *analysis, uint32_t k) {
  if (analysis == NULL) return PLAIN;
  const kf_class_result *r = &analysis->classes[k];
  if (r->n == 0) return UNKNOWN;
  return (unsigned)fmin(5 * kf_share(r->top1, r->n), 4);
}

static void collect(map *m) {
  const kf_model *model = m->page->model;
  const float *prototypes = kf_model_prototypes(model);
  const double *lengths = kf_model_prototype_lengths(model);
  size_t dim = kf_model_dim_out(model);
  for (uint32_t k = 0; k < kf_model_classes(model); k++) {
    if (kf_model_count(model, k) <= 0) continue;
    const float *p = prototypes + k * dim;
    m->spots[m->n++] = (spot){.class = k,
                              .colour = colour_of(m->page->analysis, k),
                              .x = p[0] * lengths[k],
                              .y = p[1] * lengths[k]};
  }
}

/* Scales the spots to fill the picture, each axis by itself. */
static void place(map *m) {
  kf_scale x = {INFINITY, -INFINITY, EDGE, WIDTH - EDGE, false};
  kf_scale y = {INFINITY, -INFINITY, HEIGHT - EDGE, EDGE, false};
  double most = 1;
  for (size_t i = 0; i < m->n; i++) {
    x.low = fmin(x.low, m->spots[i].x), x.high = fmax(x.high, m->spots[i].x);
    y.low = fmin(y.low, m->spots[i].y), y.high = fmax(y.high, m->spots[i].y);
    most = fmax(most, (double)kf_model_count(m->page->model, m->spots[i].class));
  }
  kf_scale_widen(&x);
  kf_scale_widen(&y);
  double largest = fmin(fmax(150 / sqrt((double)m->n), 2.4), 9);
  for (size_t i = 0; i < m->n; i++) {
    spot *s = &m->spots[i];
    double count = (double)kf_model_count(m->page->model, s->class);
    s->x = kf_scale_at(&x, s->x);
    s->y = kf_scale_at(&y, s->y);
    s->r = largest * fmax(sqrt(count / most), 0.35);
    s->far = hypot((s->x - WIDTH / 2.0) / WIDTH, (s->y - HEIGHT / 2.0) / HEIGHT);
  }
}

/* --- names ------------------------------------------------------------------------------------ */

static int farthest_first(const void *a, const void *b) {
  const spot *s = a, *t = b;
  if (s->far != t->far) return s->far > t->far ? -1 : 1;
  return s->class < t->class ? -1 : s->class > t->class;
}

/* Whether a box lies inside the picture and covers no name and no spot. With very many spots, names
 * may cover them. */
static bool free_place(const map *m, const box *taken, size_t n, const box *b) {
  if (b->left < 2 || b->right > WIDTH - 2 || b->top < 2 || b->bottom > HEIGHT - 2) return false;
  for (size_t i = 0; i < m->n && m->n <= MAX_CIRCLES; i++) {
    const spot *s = &m->spots[i];
    if (s->x > b->left && s->x < b->right && s->y > b->top + 3 && s->y < b->bottom - 3)
      return false;
  }
  for (size_t i = 0; i < n; i++)
    if (b->left < taken[i].right && b->right > taken[i].left && b->top < taken[i].bottom &&
        b->bottom > taken[i].top)
      return false;
  return true;
}

/* Writes the name of a class next to its spot, on the first free side: right, left, below,
 * above. */
static bool put_name(kf_string *out, const map *m, const spot *s, box *taken, size_t n) {
  static const char *const classes[] = {"place", "place end", "place mid", "place mid"};
  double width = 6.7 * (double)kf_class_characters(m->page, s->class, NAME) + 4;
  double gap = s->r + 4, down[] = {0, 0, gap + 8, -gap - 7};
  double from[] = {s->x + gap, s->x - gap - width, s->x - width / 2, s->x - width / 2};
  double at[] = {s->x + gap, s->x - gap, s->x, s->x};
  for (int side = 0; side < 4; side++) {
    double y = s->y + down[side];
    box b = {from[side], y - 9, from[side] + width, y + 9};
    if (!free_place(m, taken, n, &b)) continue;
    taken[n] = b;
    kf_svg_text_begin(out, classes[side], at[side], y + 4);
    kf_put_class(out, m->page, s->class, NAME);
    kf_put(out, "</text>\n");
    return true;
  }
  return false;
}

static void put_names(kf_string *out, map *m) {
  box taken[MAX_LABELS];
  size_t n = 0;
  for (size_t i = 0; i < m->n; i++) m->order[i] = m->spots[i];
  qsort(m->order, m->n, sizeof *m->order, farthest_first);
  for (size_t i = 0; i < m->n && n < MAX_LABELS; i++) n += put_name(out, m, &m->order[i], taken, n);
}

/* --- circles ---------------------------------------------------------------------------------- */

static void put_about(kf_string *out, const kf_page *c, uint32_t k) {
  kf_put_class(out, c, k, 120);
  kf_string_addf(out, ": %s rows", kf_show_count((uint64_t)kf_model_count(c->model, k)).text);
  if (c->analysis != NULL && c->analysis->classes[k].n > 0)
    kf_string_addf(out, ", %s right",
                   kf_show_percent(c->analysis->classes[k].top1, c->analysis->classes[k].n).text);
}

static void put_circles(kf_string *out, const map *m) {
  for (size_t i = 0; i < m->n; i++) {
    const spot *s = &m->spots[i];
    kf_svg_circle(out, kf_showf("spot a%u", s->colour).text, s->x, s->y, s->r);
    kf_put(out, "><title>");
    put_about(out, m->page, s->class);
    kf_put(out, "</title></circle>\n");
  }
}

/* --- points, for many classes ----------------------------------------------------------------- */

static void put_points(kf_string *out, const map *m) {
  for (unsigned colour = 0; colour < COLOURS; colour++) {
    kf_string_addf(out, "<path class=\"point a%u\" d=\"", colour);
    for (size_t i = 0; i < m->n; i++)
      if (m->spots[i].colour == colour)
        kf_string_addf(out, "M%.1f %.1fh0", m->spots[i].x, m->spots[i].y);
    kf_put(out, "\"/>\n");
  }
}

static int cell_of(const spot *s) {
  return (int)(s->y * ROWS / HEIGHT) * COLUMNS + (int)(s->x * COLUMNS / WIDTH);
}

static int by_cell(const void *a, const void *b) {
  const spot *s = a, *t = b;
  int c = cell_of(s), d = cell_of(t);
  if (c != d) return c < d ? -1 : 1;
  return s->class < t->class ? -1 : s->class > t->class;
}

static void put_grid_cell(kf_string *out, const map *m, size_t first, size_t n) {
  int cell = cell_of(&m->order[first]), column = cell % COLUMNS, row = cell / COLUMNS;
  double width = (double)WIDTH / COLUMNS, height = (double)HEIGHT / ROWS;
  kf_svg_rect(out, "cell", column * width, row * height, width, height);
  kf_put(out, "><title>");
  for (size_t i = 0; i < n && i < NAMES_IN_CELL; i++) {
    put_about(out, m->page, m->order[first + i].class);
    kf_put(out, "\n");
  }
  if (n > NAMES_IN_CELL) kf_string_addf(out, "and %zu more", n - NAMES_IN_CELL);
  kf_put(out, "</title></rect>\n");
}

static void put_grid(kf_string *out, map *m) {
  for (size_t i = 0; i < m->n; i++) m->order[i] = m->spots[i];
  qsort(m->order, m->n, sizeof *m->order, by_cell);
  for (size_t i = 0; i < m->n;) {
    size_t n = 1;
    while (i + n < m->n && cell_of(&m->order[i + n]) == cell_of(&m->order[i])) n++;
    put_grid_cell(out, m, i, n);
    i += n;
  }
}

static void put_key(kf_string *out, bool left_out) {
  static const char *const names[] = {"below 20 % right", "20–40", "40–60", "60–80",
                                      "80 % and above"};
  kf_put(out, "<ul class=\"key\">");
  for (int i = 0; i < 5; i++)
    kf_string_addf(out,
                   "<li><svg viewBox=\"0 0 12 10\" aria-hidden=\"true\"><circle class=\"spot a%d\" "
                   "cx=\"6\" cy=\"5\" r=\"4.5\"/></svg>%s%s</li>",
                   i, names[i], left_out && i == 4 ? " of the rows left out" : "");
  kf_put(out, "</ul>\n");
}

static void put_map(kf_string *out, map *m) {
  kf_plot p = {.out = out, .width = WIDTH, .height = HEIGHT};
  if (m->page->analysis != NULL) put_key(out, m->page->left_out);
  kf_put(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"map of classes\">"
              "<div class=\"broad\">");
  kf_plot_begin(&p, "Class prototypes on the first two discriminative directions");
  if (m->n <= MAX_CIRCLES)
    put_circles(out, m);
  else
    put_points(out, m);
  put_names(out, m);
  if (m->n > MAX_CIRCLES) put_grid(out, m);
  kf_plot_end(&p);
  kf_put(out, "</div></div>\n");
}

void kf_section_map(kf_string *out, const kf_page *c) {
  if (c->model == NULL || kf_model_dim_out(c->model) < 2) return;
  map m = {.page = c};
  kf_arena arena = {0};
  KF_TAKE(&arena, m.spots, kf_model_classes(c->model));
  KF_TAKE(&arena, m.order, kf_model_classes(c->model));
  if (arena.failed) {
    out->failed = true;
  } else {
    collect(&m);
    place(&m);
    kf_section_begin(out, "map", "A map of the classes");
    kf_figure_begin(out, "Prototypes along the two most discriminative directions");
    put_map(out, &m);
    kf_figure_end(
        out, m.n <= MAX_CIRCLES
                 ? "Point at a class to see its name. Larger circles have more training rows. "
                   "Classes that are close here may be far apart along other directions."
                 : "Point anywhere to see the names of the classes there. Classes that are close "
                   "here may be far apart along other directions.");
    kf_section_end(out);
  }
  kf_arena_free(&arena);
}
