/* test_search_page.c - a page of answers: what it shows, what it leaves out, and the pictures in
 * it. `test_search_page --pages FOLDER` writes one for tests/report_browser.py and does nothing
 * else. */
#include "galleries.h"

#define GOLDEN KOOFU_SOURCE_DIR "/tests/golden/images/"

enum { ROWS = 12, WIDE = 6, NEAR = 4 };

static const char *const ids[ROWS] = {
    GOLDEN "exif1.png",
    GOLDEN "exif6.png",
    "<img src=x onerror=alert(1)>",
    "http://localhost/a.png",
    "\" onmouseover=\"alert(1)",
    GOLDEN "expected.txt",
    GOLDEN,
    "/dev/zero",
    "exif3.png",
    "../images/exif3.png",
    "\xE2\x80\xAE"
    "dcba",
    "a name that is so long that nobody would want to see all of it on a "
    "page, even if there were room for it, which there is not"};

typedef struct answers {
  kf_gallery *gallery;
  int64_t rows[2 * NEAR];
  double scores[2 * NEAR];
} answers;

static const char *const asked[] = {"a red <fox> & \"friends\"", GOLDEN "exif1.png"};

/* A gallery with these ids, and answers that show the rows of a list. */
static answers make_answers(const char *where, const int64_t *rows) {
  AUTO(world) w = make_world(ROWS, WIDE, 3, 1, 5);
  AUTO(kf_data) *data = data_of(w.rows, ROWS, WIDE, w.labels, 3);
  FILE *file = fopen(test_path(where, "ids.txt"), "w");
  assert_non_null(file);
  for (int i = 0; i < ROWS; i++) fprintf(file, "%s\n", ids[i]);
  assert_int_equal(fclose(file), 0);
  const char *path = test_path(where, "page_gallery.safetensors");
  kf_gallery_options o = {.ids = test_path(where, "ids.txt")};
  answers a = {.scores = {0.9876, 0.5, -0.25, -1, 3, 2, 1, 0}};
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &o, path));
  a.gallery = load(path, 0);
  memcpy(a.rows, rows, sizeof a.rows);
  return a;
}

static const int64_t some[] = {0, 1, 2, 3, 4, 5, 8, 11}, strange[] = {2, 3, 4, 5, 6, 7, 9, 10};

static char *page_of(const answers *a, const kf_search_page_options *o,
                     kf_search_page_result *result) {
  size_t n;
  assert_ok(ctx, kf_search_page_write(ctx, a->gallery, asked, 2, NEAR, a->rows, a->scores, o,
                                      at("a.html"), result));
  char *text = test_read(at("a.html"), &n);
  assert_int_equal(result->bytes, n);
  text[n] = '\0'; /* there is room for it */
  assert_null(strstr(text, "<script"));
  return text;
}

static void assert_shows(const char *page, const char *text) {
  if (strstr(page, text) == NULL) fail_msg("no '%s' on the page", text);
}

static size_t count(const char *page, const char *text) {
  size_t n = 0;
  for (const char *p = page; (p = strstr(p, text)) != NULL; p++) n++;
  return n;
}

/* A build without a codec shows fewer. */
static bool reads_png(void) {
  answers a = make_answers(folder, some);
  kf_search_page_result result;
  free(page_of(&a, NULL, &result));
  kf_gallery_free(a.gallery);
  return result.thumbnails > 0;
}

TEST(answers_and_pictures) {
  if (!reads_png()) test_skip("PNG");
  answers a = make_answers(folder, some);
  kf_search_page_result result;
  kf_search_page_options o = {
      .title = "A & B", .name = "g<1>", .note = "A <note>.", .queries = 1000};
  AUTOFREE char *page = page_of(&a, &o, &result);
  assert_int_equal(result.thumbnails, 3); /* the second query, and rows 0 and 1 */
  assert_int_equal(count(page, "<img alt=\"\""), 3);
  assert_int_equal(count(page, "src=\"data:image/"), 3);
  assert_shows(page, "A &amp; B");
  assert_shows(page, "g&lt;1&gt;");
  assert_shows(page, "A &lt;note&gt;.");
  assert_shows(page, "the first 2 of 1,000");
  assert_shows(page, "a red &lt;fox&gt; &amp; &quot;friends&quot;");
  assert_shows(page, "<b>0.9876</b>");
  assert_shows(page, "<b>−0.2500</b>");
  assert_shows(page, "<bdi>bee</bdi>");
  assert_shows(page, "…");
  free(page);
  o = (kf_search_page_options){.pictures = KOOFU_SOURCE_DIR "/tests/golden/images"};
  free(page_of(&a, &o, &result));
  assert_int_equal(result.thumbnails, 4); /* exif3.png as well */
  o = (kf_search_page_options){.thumbnails = KF_OFF};
  page = page_of(&a, &o, &result);
  assert_true(result.thumbnails == 0 && strstr(page, "<img alt=\"\"") == NULL);
  kf_gallery_free(a.gallery);
}

TEST(strange_ids_are_text) {
  answers a = make_answers(folder, strange);
  kf_search_page_result result;
  AUTOFREE char *page = page_of(&a, NULL, &result);
  assert_true(result.thumbnails <= 1); /* that of the query */
  assert_shows(page, "&lt;img src=x onerror=alert(1)&gt;");
  assert_shows(page, "&quot; onmouseover=&quot;alert(1)");
  assert_shows(page, "http://localhost/a.png</bdi>");
  assert_null(strstr(page, "href"));
  assert_null(strstr(page, "\xE2\x80\xAE"));
  kf_gallery_free(a.gallery);
}

TEST(the_same_bytes) {
  answers a = make_answers(folder, some);
  kf_search_page_result result;
  AUTOFREE char *first = page_of(&a, NULL, &result), *second = NULL;
  kf_ctx *other = ctx;
  ctx = test_ctx(1, KF_ISA_PLAIN);
  second = page_of(&a, NULL, &result);
  kf_ctx_free(ctx);
  ctx = other;
  assert_string_equal(first, second);
  kf_gallery_free(a.gallery);
}

static kf_status try(const answers *a, const char *const *queries, uint32_t k, const char *path) {
  return kf_search_page_write(ctx, a->gallery, queries, 1, k, a->rows, a->scores, NULL, path, NULL);
}

TEST(what_cannot_be) {
  answers a = make_answers(folder, some);
  static const char *const nothing[] = {NULL};
  assert_ok(ctx, try(&a, NULL, NEAR, at("numbers.html")));
  assert_int_equal(try(&a, nothing, NEAR, at("no.html")), KF_ERR_ARG);
  assert_int_equal(try(&a, asked, 0, at("no.html")), KF_ERR_ARG);
  assert_int_equal(try(&a, asked, ROWS + 1, at("no.html")), KF_ERR_ARG);
  assert_int_equal(try(&a, asked, NEAR, at("none/no.html")), KF_ERR_IO);
  assert_int_equal(try(&a, asked, NEAR, at("page_gallery.safetensors")), KF_ERR_ARG);
  a.rows[2] = ROWS;
  assert_int_equal(try(&a, asked, NEAR, at("no.html")), KF_ERR_ARG);
  a.rows[2] = -1;
  assert_int_equal(try(&a, asked, NEAR, at("no.html")), KF_ERR_ARG);
  assert_true(access(at("no.html"), F_OK) != 0);
  kf_gallery_free(a.gallery);
}

/* tests/report_browser.py names a folder for it. */
TEST(page_for_a_browser) {
  const char *where = getenv("KOOFU_TEST_PAGES") != NULL ? getenv("KOOFU_TEST_PAGES") : folder;
  answers a = make_answers(where, some);
  assert_ok(ctx, kf_search_page_write(ctx, a.gallery, asked, 2, NEAR, a.rows, a.scores, NULL,
                                      test_path(where, "answers.html"), NULL));
  kf_gallery_free(a.gallery);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
