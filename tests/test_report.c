/* test_report.c - the page: well-formed whatever it contains, safe whatever classes are called, not
 * too large to open, and the same bytes every time.
 *
 * `test_report --pages FOLDER` writes the pages for tests/report_browser.py and does nothing else.
 */
#include "files.h"
#include "pages.h"

/* --- is it well-formed? ----------------------------------------------------------------------- */

/* A stricter reading than that of browsers: every element is closed in order, every attribute has a
 * value in double quotes, '<' and '&' stand for nothing but markup. */
typedef struct reader {
  const char *at, *end;
  char open[32][16];
  int depth;
} reader;

static void bad(const reader *r, const char *what) {
  long left = (long)(r->end - r->at);
  fail_msg("%s at '%.*s'", what, left < 80 ? (int)left : 80, r->at);
}

static void read_name(reader *r, char name[16]) {
  size_t n = 0;
  while (r->at < r->end && n < 15 &&
         (*r->at == '-' || (*r->at >= '0' && *r->at <= '9') || (*r->at >= 'a' && *r->at <= 'z') ||
          (*r->at >= 'A' && *r->at <= 'Z')))
    name[n++] = *r->at++;
  name[n] = '\0';
  if (n == 0) bad(r, "no name");
}

static void read_attributes(reader *r) {
  char name[16];
  while (r->at < r->end && *r->at == ' ') {
    r->at++;
    read_name(r, name);
    if (*r->at++ != '=' || *r->at++ != '"') bad(r, "an attribute without a value");
    while (r->at < r->end && *r->at != '"')
      if (*r->at++ == '<') bad(r, "markup in an attribute");
    r->at++;
  }
}

static void read_tag(reader *r) {
  char name[16];
  int closing = *r->at == '/';
  r->at += closing;
  read_name(r, name);
  if (closing) {
    if (r->depth == 0 || strcmp(r->open[--r->depth], name) != 0) bad(r, "closes another element");
  } else {
    read_attributes(r);
    int empty = *r->at == '/' || strcmp(name, "meta") == 0;
    r->at += *r->at == '/';
    if (!empty) {
      if (r->depth == 32) bad(r, "too deep");
      memcpy(r->open[r->depth++], name, sizeof name);
    }
  }
  if (*r->at++ != '>') bad(r, "a tag without an end");
}

static void read_entity(reader *r) {
  static const char *const known[] = {"amp;", "lt;", "gt;", "quot;", "#39;", "nbsp;"};
  for (size_t i = 0; i < 6; i++)
    if (strncmp(r->at, known[i], strlen(known[i])) == 0) return;
  bad(r, "an ampersand that stands for nothing");
}

static void assert_well_formed(const char *text, size_t n) {
  static const char doctype[] = "<!DOCTYPE html>\n";
  assert_true(n > sizeof doctype && memcmp(text, doctype, sizeof doctype - 1) == 0);
  reader r = {.at = text + sizeof doctype - 1, .end = text + n};
  while (r.at < r.end) {
    char c = *r.at++;
    if (c == '<') read_tag(&r);
    if (c == '&') read_entity(&r);
    if ((unsigned char)c < 0x20 && c != '\n') bad(&r, "a control character");
  }
  assert_int_equal(r.depth, 0);
}

/* Nothing that is fetched or run, and no NaN or infinity. */
static void assert_harmless(const char *text) {
  static const char *const never[] = {
      "<script", "http:", "https:", "url(", "src=", "href=", "@import", "nan", "inf", "NaN"};
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    if (strstr(text, never[i]) != NULL) fail_msg("'%s' is in the page", never[i]);
}

/* Writes a page, checks it, and returns it; the caller frees it. */
static char *save(const kf_page *content, size_t *size) {
  const char *path = at("page.html");
  assert_ok(ctx, kf_page_save(ctx, content, path));
  char *text = test_read(path, size);
  text[*size] = '\0';
  assert_int_equal(strlen(text), *size);
  assert_well_formed(text, *size);
  assert_harmless(text);
  return text;
}

static void assert_holds(const kf_page *content, const char *const *wanted, size_t n) {
  size_t size;
  AUTOFREE char *text = save(content, &size);
  for (size_t i = 0; i < n; i++)
    if (strstr(text, wanted[i]) == NULL) fail_msg("'%s' is not in the page", wanted[i]);
}

/* --- tests ------------------------------------------------------------------------------------ */

TEST(everything) {
  static const char *const wanted[] = {"<h1><bdi>A page</bdi></h1>",
                                       "id=\"summary\"",
                                       "id=\"lambda\"",
                                       "id=\"dimensions\"",
                                       "id=\"neighbours\"",
                                       "id=\"shots\"",
                                       "With 8 rows per class",
                                       "<b>75.67\u202F%</b>",
                                       "class=\"spread f1\"",
                                       "1 of 40 classes have fewer than 8 rows",
                                       "id=\"map\"",
                                       "id=\"classes\"",
                                       "id=\"confusions\"",
                                       "id=\"margins\"",
                                       "train.npy",
                                       "test.npy",
                                       "Made by koofu",
                                       "<b>55.00\u202F%</b>",
                                       "46.67\u202F%",
                                       "<b>8.33 points more</b>",
                                       "16 of 64 dimensions",
                                       "53.21–56.77",
                                       "10 were left out",
                                       "memory of 4,000 rows",
                                       "prefers-color-scheme",
                                       "highest, <b>55.00\u202F%</b>, at λ",
                                       "class 4",
                                       "Content-Security-Policy",
                                       "default-src 'none'"};
  page p;
  page_make(&p, ctx, 40, 64, 16, NULL);
  assert_holds(&p.content, wanted, sizeof wanted / sizeof *wanted);
  page_free(&p);
}

/* By likelihood the text is about all rows that were left out, the curve and its standard error
 * about the curve's own rows. */
TEST(lambda_by_likelihood) {
  static const char *const wanted[] = {
      "Leaving out each of 4,000 training rows in turn, their classes are most likely at λ",
      (" At this λ <b>52.00\u202F%</b> of them are classified correctly. The curve, of 2,500 "
       "rows, stays within one standard error (0.65 points)"),
      "below the accuracy where classes are most likely"};
  static const char *const all[] = {
      "classified correctly. Accuracy stays within one standard error"};
  static const char *const other[] = {", within one standard error of that. At this λ <b>52.00"};
  page p;
  page_make(&p, ctx, 40, 64, 16, NULL);
  p.lambda.criterion = KF_CRITERION_LIKELIHOOD;
  p.lambda.n = 2500;
  p.lambda.n_all = 4000;
  p.lambda.all.top1 = 2080;
  assert_holds(&p.content, wanted, sizeof wanted / sizeof *wanted);
  p.lambda.n = 4000;
  assert_holds(&p.content, all, 1);
  p.lambda.chosen = 9;
  assert_holds(&p.content, other, 1);
  page_free(&p);
}

TEST(names_and_pictures) {
  static const char *const wanted[] = {
      "id=\"text\"",
      "<dt>α</dt><dd>0.3",
      "together are right for <b>66.00\u202F%</b> of 3,000 test rows",
      "<b>6.00 points more</b> than names alone",
      "<b>11.00 points more</b> than pictures alone",
      "raw <span>text (zero-shot)</span>",
      "58.24–61.74",                                      /* the interval of text alone */
      "text (zero-shot)</span></th><td>16</td><td>15.00", /* centred by modality, not unchanged */
      "Koo-Fu <span>prototypes and text</span></th><td>80</td>",
      "64.29–67.67",
      "Accuracy over λ, test rows",
      "text, mapped",
      "text, raw space",
      "Choosing α: leave one out",
      "right for <b>66.25\u202F%</b> with λ",
      "α = 0.3; text alone for 60.00",
      "Accuracy over dimensions, test rows",
      "class=\"tip end\" x=\"466\" y=\"14\">α = 0.01<",
      "<td>text and prototypes</td>",
      "by text and prototypes together, <b>0</b> are classified without"};
  /* What the curves of the three figures show: colours 0, 1 and 2 are prototypes, both, and
   * text. */
  static const char *const drawn[] = {
      "line s1\" d=\"M40 87.5L182 85.5L249.8 83.5L324 81.6L466 79.6\"",
      "f1\" x=\"257.8\" y=\"87.5\">65.33<",
      "f2\" x=\"257.8\" y=\"218.6\">43.33<",
      "base s2\" x1=\"40\" y1=\"115.3\"", /* 60.00 % */
      "base s5\" x1=\"40\" y1=\"194.7\"", /* 46.67 % */
      "line s1\" d=\"M40 117L182 83L249.8 49L324 100L466 236\"",
      "class=\"band\" x=\"40\" y=\"49\" width=\"426\" height=\"10.2\"",
      "f0\" x=\"303.6\" y=\"141.1\">47.53<",
      "f1\" x=\"303.6\" y=\"105.5\">58.33<",
      "f2\" x=\"303.6\" y=\"248.5\">15.00<"};
  page p;
  size_t size;
  page_make(&p, ctx, 40, 64, 16, NULL);
  char *text = save(&p.content, &size);
  assert_null(strstr(text, "id=\"text\""));
  assert_null(strstr(text, "<dt>α</dt>"));
  free(text);
  page_add_text(&p, ctx);
  /* mapped text with the dimensions of the model */
  page_add_cell(&p, 0.3, 16, 0, KF_CENTRE_NONE, 600);
  assert_holds(&p.content, wanted, sizeof wanted / sizeof *wanted);
  assert_holds(&p.content, drawn, sizeof drawn / sizeof *drawn);
  p.content.text = p.content.fused = NULL; /* the sweep has it as well */
  static const char *const swept[] = {
      "together are right for <b>58.33\u202F%</b> of 3,000 test rows"};
  assert_holds(&p.content, swept, 1);
  p.fuse.text_top1 = 2320; /* 58 %, and no longer that of the first point */
  static const char *const alone[] = {"class=\"base s2\" x1=\"40\" y1=\"161.2\""};
  assert_holds(&p.content, alone, 1);
  p.fuse.alpha = 0.1, p.fuse.chosen = 2;
  static const char *const other[] = {"The model uses α = 0.3."};
  assert_holds(&p.content, other, 1);
  static const char *const likely[] = {"below the accuracy where classes are most likely."};
  p.fuse.criterion = KF_CRITERION_LIKELIHOOD;
  assert_holds(&p.content, likely, 1);
  p.fuse.n_points = 0;
  static const char *const single[] = {"No class has two rows"};
  assert_holds(&p.content, single, 1);
  page_free(&p);
}

/* Folds have less scatter: the lambda of their cells is smaller than that of the model, and is the
 * same relative to it. */
TEST(folds) {
  static const char *const wanted[] = {"3,000 held-out rows", "<b>0.87 points more</b>",
                                       "held out in 5 folds", "held-out folds",
                                       "16 of 64 dimensions"};
  page p;
  page_make(&p, ctx, 40, 64, 16, NULL);
  p.content.eval = NULL;
  p.content.analysis = NULL;
  p.sweep.folds = 5;
  for (size_t i = 0; i < p.sweep.n_cells; i++) p.sweep.cells[i].lambda *= 0.8;
  assert_holds(&p.content, wanted, sizeof wanted / sizeof *wanted);
  page_free(&p);
}

TEST(same_bytes) {
  page p;
  page_make(&p, ctx, 40, 64, 16, NULL);
  assert_ok(ctx, kf_page_save(ctx, &p.content, at("a.html")));
  assert_ok(ctx, kf_page_save(ctx, &p.content, at("b.html")));
  assert_same_file(at("a.html"), at("b.html"));
  page_free(&p);
}

/* Every subset of the parts. */
TEST(parts) {
  page p;
  page_make(&p, ctx, 7, 12, 5, NULL);
  page_add_text(&p, ctx);
  for (unsigned left = 0; left < 2048; left++) {
    kf_page c = p.content;
    size_t size;
    if (left & 1) c.model = NULL;
    if (left & 2) c.eval = NULL;
    if (left & 4) c.lambda = NULL;
    if (left & 8) c.dim = NULL;
    if (left & 16) c.k = NULL;
    if (left & 32) c.sweep = NULL;
    if (left & 64) c.analysis = NULL;
    if (left & 128) c.shots = NULL;
    if (left & 256) c.text = NULL;
    if (left & 512) c.fused = NULL;
    if (left & 1024) c.fuse = NULL;
    if (left & 1) c.title = c.train = c.test = NULL, c.train_rows = 0;
    free(save(&c, &size));
  }
  page_free(&p);
}

/* Parts with nothing in them, or with one of everything. */
TEST(next_to_nothing) {
  kf_eval_result eval = {0};
  kf_lambda_choice lambda = {0};
  kf_dim_choice dim = {0};
  kf_k_choice k = {0};
  kf_sweep sweep = {0};
  kf_analysis analysis = {0};
  kf_fuse_choice fuse = {0};
  kf_page c = {.eval = &eval,
               .text = &eval,
               .fused = &eval,
               .fuse = &fuse,
               .lambda = &lambda,
               .dim = &dim,
               .k = &k,
               .sweep = &sweep,
               .analysis = &analysis};
  size_t size;
  free(save(&c, &size));
  kf_lambda_point lambda_point = {0};
  kf_dim_point dim_point = {.dim = 1};
  kf_k_point hits = {.k = 1};
  kf_sweep_cell cells[2] = {{.raw = 1, .dim = 1, .metric = KF_METRIC_COSINE},
                            {.dim = 1, .metric = KF_METRIC_COSINE}};
  kf_class_result one = {3, 3, 3, 3};
  kf_fuse_point fuse_point = {0};
  fuse.points = &fuse_point, fuse.n_points = 1;
  kf_margin_bin bins[3] = {{0, 0, 3, 3}, {INFINITY, INFINITY, 2, 1}, {0, 0, 0, 0}};
  lambda.points = &lambda_point, dim.points = &dim_point, k.points = &hits, sweep.cells = cells;
  analysis.classes = &one, analysis.bins = bins;
  lambda.n_points = dim.n_points = k.n_points = 1, sweep.n_cells = 2;
  analysis.n_classes = 1, analysis.n_bins = 3;
  dim.dim = dim.best = k.k = k.best = 1;
  free(save(&c, &size));
}

/* All the same, all right, all wrong: scales without a range. */
TEST(flat) {
  page p;
  page_make(&p, ctx, 2, 2, 2, NULL);
  for (int right = 0; right < 2; right++) {
    size_t size;
    for (size_t i = 0; i < PAGE_LAMBDAS; i++) p.lambda_points[i].top1 = right ? 4000 : 0;
    for (size_t i = 0; i < PAGE_KS; i++) p.k_points[i].top1 = right ? 4000 : 0;
    for (size_t i = 0; i < p.dim.n_points; i++) p.dim.points[i].top1 = right ? 4000 : 0;
    for (size_t i = 0; i < p.sweep.n_cells; i++) p.sweep.cells[i].top1 = right ? 3000 : 0;
    for (size_t k = 0; k < 2; k++) p.analysis.classes[k].top1 = right ? 20 : 0;
    p.eval.top1 = p.eval.raw_top1 = right ? 3000 : 0;
    free(save(&p.content, &size));
  }
  page_free(&p);
}

/* --- names ------------------------------------------------------------------------------------ */

static const char *const hostile[] = {
    "<script>alert('1')</script>",
    "</title></svg><img src=x onerror=alert(1)>",
    "\"quotes\" & 'apostrophes' &amp; ]]>",
    "tab\tand\nline\x7F\x01",
    "\u202Eesrever \u200F mixed \u2066",
    "Türkisch-Angora 猫 🐈 ελληνικά",
    "a very long name that goes on and on and on and on and on and on and on and on and on and on "
    "and on and on and on and on and on and on and on and on and on and on and on and on and on",
    "RindfleischetikettierungsüberwachungsaufgabenübertragungsgesetzRindfleischetikettierungsüber"
    "wachungsaufgabenübertragungsgesetz"};

TEST(escaped) {
  static const char *const wanted[] = {"&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;",
                                       "&quot;quotes&quot; &amp; &#39;apostrophes&#39; &amp;amp;",
                                       "tab\uFFFDand\uFFFDline\uFFFD\uFFFD",
                                       "猫 🐈",
                                       "\uFFFDesrever",
                                       "a very long name that g…",
                                       "<title>&lt;b&gt;\uFFFD\uFFFD&amp;</title>",
                                       "&lt;i&gt;.npy"};
  page p;
  page_make(&p, ctx, 8, 16, 4, hostile);
  p.content.title = "<b>\xFF\xC3&"; /* and invalid UTF-8 */
  p.content.train = "<i>.npy";
  size_t size;
  assert_ok(ctx, kf_page_save(ctx, &p.content, at("page.html")));
  AUTOFREE char *text = test_read(at("page.html"), &size);
  text[size] = '\0';
  assert_well_formed(text, size);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (strstr(text, wanted[i]) == NULL) fail_msg("'%s' is not in the page", wanted[i]);
  assert_null(strstr(text, "<script"));
  assert_null(strstr(text, "<img"));
  page_free(&p);
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* The cells of the pointer make a grid, 48 by 36 of 760 by 560. */
static void assert_grid(const char *text) {
  static const char begin[] = "<rect class=\"cell\" x=\"";
  size_t n = 0;
  for (const char *at = strstr(text, begin); at != NULL; at = strstr(at + 1, begin), n++) {
    char *end;
    double x = strtod(at + strlen(begin), &end) * 48 / 760;
    assert_memory_equal(end, "\" y=\"", 5);
    double y = strtod(end + 5, NULL) * 36 / 560;
    if (fabs(x - round(x)) > 0.01 || fabs(y - round(y)) > 0.01)
      fail_msg("a cell begins at column %g, row %g", x, y);
  }
  assert_true(n > 100);
}

TEST(many_classes) {
  static const struct {
    uint32_t classes;
    size_t most;
  } cases[] = {{1000, 400u << 10}, {21000, 1200u << 10}};
  for (int i = 0; i < 2; i++) {
    page p;
    size_t size;
    page_make(&p, ctx, cases[i].classes, 16, 8, NULL);
    AUTOFREE char *text = save(&p.content, &size);
    if (i == 1) assert_grid(text);
    if (size > cases[i].most) fail_msg("%u classes take %zu bytes", cases[i].classes, size);
    page_free(&p);
  }
}

/* --- failures --------------------------------------------------------------------------------- */

TEST(not_written) {
  page p;
  page_make(&p, ctx, 4, 8, 4, NULL);
  int before = test_entries(folder);
  assert_error(ctx, KF_ERR_IO, "absent/page.html",
               kf_page_save(ctx, &p.content, at("absent/page.html")));
  assert_error(ctx, KF_ERR_IO, folder, kf_page_save(ctx, &p.content, folder));
  assert_int_equal(test_entries(folder), before);
  page_free(&p);
}

/* --- pages for a browser ---------------------------------------------------------------------- */

/* tests/report_browser.py names a folder for them. */
TEST(pages_for_a_browser) {
  const char *where = getenv("KOOFU_TEST_PAGES") != NULL ? getenv("KOOFU_TEST_PAGES") : folder;
  static const struct {
    const char *name;
    uint32_t classes, dim, kept;
    const char *const *names;
  } pages[] = {{"small.html", 40, 64, 16, NULL},
               {"hostile.html", 8, 16, 4, hostile},
               {"large.html", 21000, 768, 96, NULL}};
  for (int i = 0; i < 3; i++) {
    page p;
    page_make(&p, ctx, pages[i].classes, pages[i].dim, pages[i].kept, pages[i].names);
    if (i < 2) page_add_text(&p, ctx);
    p.content.title = i == 1 ? hostile[7] : "A page";
    p.content.train = i == 1 ? hostile[6] : "train.npy";
    assert_ok(ctx, kf_page_save(ctx, &p.content, test_path(where, pages[i].name)));
    page_free(&p);
  }
  assert_ok(ctx, kf_page_save(ctx, &(kf_page){0}, test_path(where, "empty.html")));
}

static int set_up(void **state) {
  test_in_memory(state);
  return make_test_folder(state);
}

FIXTURES(.before = set_up, .after = remove_test_folder);
