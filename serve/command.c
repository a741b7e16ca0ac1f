/* command.c - the command line that does the same as a request, as member "command" of the answer.
 *
 * It runs as it is printed, in the folder where the server was started. If there is none - the
 * demo has no files, 'koofu classify' takes no words, a client's rows have no name - it is null. */
#include "journal.h"
#include "server.h"

#include <string.h>

enum { MOST_INPUTS = 16 };

#define ADDED   "/tmp/koofu-added.safetensors"
#define GALLERY "/tmp/koofu-gallery.safetensors"

void sv_put_command(sv_request *r, bool (*make)(sv_request *r, sv_text *t)) {
  sv_text command = {.arena = &r->arena};
  bool fine = !r->server->demo && make(r, &command);
  sv_json_string(&r->out, "command", fine ? sv_text_string(&command) : NULL);
}

static void put_option(sv_text *t, const char *name, const char *value) {
  sv_putf(t, " --%s ", name);
  sv_put_word(t, value);
}

/* The file with the raw rows of the gallery; NULL: there is none. */
static const char *rows_file(const sv_request *r) {
  const sv_options *o = &r->server->options;
  const sv_shelf *shelf = r->world->shelf;
  return !shelf || !shelf->rows ? NULL : o->rows ? o->rows : o->gallery;
}

/* --- the input -------------------------------------------------------------------------------- */

/* Whether 'koofu search' takes this for words, not for files. */
static bool is_words(const char *text) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const char *dot = strrchr(text, '.');
  bool ending = dot && dot[1] && dot[1 + strspn(dot + 1, letters)] == '\0';
  return *text && *text != '-' && !ending && !strchr(text, '/');
}

/* Files and words as they were sent. False: an input cannot be named. */
static bool put_inputs(sv_text *t, const sv_input *in) {
  bool words = in->kind == SV_TEXTS;
  const char *const *names = words ? in->texts : in->files;
  uint64_t n = words ? in->n : in->n_files;
  for (uint64_t i = 0; i < n; i++) {
    if (!names[i] || i == MOST_INPUTS || (words && !is_words(names[i]))) return false;
    sv_puts(t, *names[i] == '-' ? " ./" : " ");
    sv_put_word(t, names[i]);
  }
  return n > 0;
}

static void put_encoder(sv_request *r, sv_text *t) {
  const sv_options *o = &r->server->options;
  if (r->in.kind == SV_PICTURES || r->in.kind == SV_TEXTS) {
    put_option(t, "encoder", o->encoder);
    if (o->precision == KF_PRECISION_F32) sv_puts(t, " --precision f32");
  }
  if (o->any_encoder) sv_puts(t, " --any-encoder");
}

/* Of the answers to all rows of the gallery, the header and that to the row asked about. */
static bool put_choice(sv_request *r, sv_text *t) {
  if (r->in.kind != SV_ROW_NUMBERS) return true;
  sv_putf(t, " | sed -n '1p;%llup'", (unsigned long long)r->in.numbers[0] + 2);
  return r->in.n == 1;
}

/* --- the commands ----------------------------------------------------------------------------- */

static void put_merge(const sv_request *r, sv_text *t, const char *output) {
  sv_puts(t, "koofu add-class ");
  sv_put_word(t, r->server->options.model);
  put_option(t, "from-journal", sv_journal_folder(r->server->journal));
  sv_putf(t, " -o %s", output);
}

bool sv_merge_command(sv_request *r, sv_text *t) {
  put_merge(r, t, "model2.safetensors");
  return true;
}

bool sv_classes_command(sv_request *r, sv_text *t) {
  if (r->world->n_added > 0) return sv_merge_command(r, t);
  sv_puts(t, "koofu info --json ");
  sv_put_word(t, r->server->options.model);
  return true;
}

bool sv_classify_command(sv_request *r, sv_text *t) {
  const sv_input *in = &r->in;
  if (in->kind == SV_TEXTS) return false;
  if (r->world->n_added > 0) {
    put_merge(r, t, ADDED);
    sv_puts(t, " && ");
  }
  sv_puts(t, "koofu classify ");
  sv_put_word(t, r->world->n_added > 0 ? ADDED : r->server->options.model);
  if (in->kind == SV_ROW_NUMBERS) {
    sv_puts(t, " ");
    sv_put_word(t, rows_file(r));
  } else if (!put_inputs(t, in)) {
    return false;
  }
  put_encoder(r, t);
  if (r->server->options.names) put_option(t, "names", r->server->options.names);
  sv_putf(t, " --top %u%s", in->top, r->world->probabilities ? " --probabilities" : "");
  return put_choice(r, t);
}

/* The gallery of the space: the file, or one that has to be made of the rows first. */
static void put_gallery(sv_request *r, sv_text *t) {
  const sv_options *o = &r->server->options;
  bool is_file = o->gallery && r->in.raw == !r->world->shelf->mapped;
  if (!is_file) {
    sv_puts(t, "koofu index ");
    sv_put_word(t, rows_file(r));
    if (!r->in.raw) put_option(t, "model", o->model);
    sv_puts(t, " -o " GALLERY " && ");
  }
  sv_puts(t, "koofu search ");
  sv_put_word(t, is_file ? o->gallery : GALLERY);
}

bool sv_search_command(sv_request *r, sv_text *t) {
  const sv_input *in = &r->in;
  put_gallery(r, t);
  if (in->kind == SV_ROW_NUMBERS)
    sv_puts(t, " --itself");
  else if (!put_inputs(t, in))
    return false;
  put_encoder(r, t);
  sv_putf(t, " -k %u", in->k);
  return put_choice(r, t);
}

/* The plane of the raw space is the server's own. */
bool sv_map_command(sv_request *r, sv_text *t) {
  if (r->in.raw || !rows_file(r)) return false;
  sv_puts(t, "koofu transform ");
  sv_put_word(t, r->server->options.model);
  sv_puts(t, " ");
  sv_put_word(t, rows_file(r));
  sv_puts(t, " -o mapped.npy");
  return true;
}
