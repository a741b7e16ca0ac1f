/* serve.c - beginning, middle and end: loads everything, starts the threads, watches over signals, files and
 * slow clients once a second, and stops when all that has arrived is answered. */
#include "journal.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TOKEN_LEAST = 16, TOKEN_MOST = 4096 };

void sv_log(sv_server *s, const char *format, ...) {
  char line[2048];
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  pthread_mutex_lock(&s->log_lock);
  s->options.log(s->options.user, line);
  pthread_mutex_unlock(&s->log_lock);
}

kf_ctx *sv_context(sv_server *s, unsigned threads) {
  kf_ctx *ctx = NULL;
  kf_ctx_options options = {
      .threads = threads, .any_encoder = s->options.any_encoder, .device = "cpu"};
  return kf_ctx_new(&options, &ctx) == KF_OK ? ctx : NULL;
}

/* --- the token -------------------------------------------------------------------------------------- */

static kf_status check_token(const char *path, char *token, size_t n, char *message, size_t size) {
  while (n > 0 && strchr(" \t\r\n", token[n - 1])) n--;
  token[n] = '\0';
  for (size_t i = 0; i < n; i++)
    if (token[i] <= ' ' || token[i] >= 0x7f) n = 0;
  if (n >= TOKEN_LEAST) return KF_OK;
  snprintf(message, size, "%s: a token has at least %d visible characters, and no spaces", path,
           TOKEN_LEAST);
  return KF_ERR_DATA;
}

static kf_status read_token(sv_server *s, char *message, size_t size) {
  const char *path = s->options.token_file;
  if (!path) return KF_OK;
  FILE *file = fopen(path, "re");
  if (!file) {
    snprintf(message, size, "%s: cannot be read: %s", path, strerror(errno));
    return KF_ERR_IO;
  }
  s->token = calloc(1, TOKEN_MOST + 1);
  size_t n = s->token ? fread(s->token, 1, TOKEN_MOST, file) : 0;
  bool failed = ferror(file) || !s->token;
  fclose(file);
  if (!failed) return check_token(path, s->token, n, message, size);
  snprintf(message, size, "%s: cannot be read", path);
  return KF_ERR_IO;
}

/* --- loading ------------------------------------------------------------------------------------------ */

static kf_status load_encoder(sv_server *s, kf_ctx *ctx, char *message, size_t size) {
  kf_encoder_options options = {.precision = s->options.precision,
                                .max_pixels = s->options.max_pixels};
  if (!s->options.encoder) return KF_OK;
  kf_status status = kf_encoder_load(ctx, s->options.encoder, &options, &s->encoder);
  if (status != KF_OK) {
    snprintf(message, size, "%s", kf_errmsg(ctx));
    return status;
  }
  s->text_mean = calloc(kf_encoder_dim(s->encoder), sizeof *s->text_mean);
  return s->text_mean ? KF_OK : KF_ERR_MEM;
}

static kf_status open_images(sv_server *s, char *message, size_t size) {
  if (!s->options.images) return KF_OK;
  s->images = open(s->options.images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (s->images >= 0) return KF_OK;
  snprintf(message, size, "%s: cannot be opened: %s", s->options.images, strerror(errno));
  return KF_ERR_IO;
}

/* Classes that are added to the demo last as long as it does. */
static kf_status open_journal(sv_server *s, char *message, size_t size) {
  char scratch[] = "/tmp/koofu-demo-XXXXXX", *own = NULL;
  const char *folder = s->options.journal;
  if (s->demo) {
    folder = mkdtemp(scratch);
  } else if (!folder) {
    if (asprintf(&own, "%s.journal", s->options.model) < 0) own = NULL;
    folder = own;
  }
  if (!folder) {
    snprintf(message, size, "the folder of the journal cannot be made: %s", strerror(errno));
    return KF_ERR_IO;
  }
  kf_status status = sv_journal_open(folder, &s->journal, message, size);
  if (status == KF_OK && s->demo) sv_journal_forget(s->journal);
  free(own);
  return status;
}

static kf_status load(sv_server *s, kf_ctx *ctx, char *message, size_t size) {
  kf_status status = read_token(s, message, size);
  if (status == KF_OK) status = open_images(s, message, size);
  if (status == KF_OK) status = load_encoder(s, ctx, message, size);
  if (status == KF_OK) status = open_journal(s, message, size);
  if (status == KF_OK) status = sv_state_load(s, ctx, message, size);
  return status;
}

/* --- running ------------------------------------------------------------------------------------------- */

static void reload(sv_server *s, kf_ctx *ctx) {
  char message[1024] = "out of memory";
  if (sv_state_load(s, ctx, message, sizeof message) == KF_OK) {
    atomic_fetch_add(&s->metrics.reloads, 1);
    sv_log(s, "loaded %s anew", s->demo ? "the demo" : s->options.model);
  } else {
    atomic_fetch_add(&s->metrics.failed_reloads, 1);
    sv_log(s, "the files have changed, but what was loaded before stays: %s", message);
  }
}

/* A class that is being added meanwhile must be in the world that is loaded, too. */
static void reload_quietly(sv_server *s, kf_ctx *ctx) {
  pthread_mutex_lock(&s->change_lock);
  reload(s, ctx);
  pthread_mutex_unlock(&s->change_lock);
}

/* Files that are copied change several times; they are loaded when they have not changed for a second. */
static void watch_files(sv_server *s, kf_ctx *ctx, bool *pending, sv_stamp seen[3]) {
  sv_stamp now[3];
  if (!sv_state_changed(s, now)) {
    *pending = false;
    return;
  }
  bool settled = *pending && memcmp(now, seen, sizeof now) == 0;
  memcpy(seen, now, sizeof now);
  *pending = !settled;
  if (settled) reload_quietly(s, ctx);
}

static void serve(sv_server *s, kf_ctx *ctx, const sigset_t *signals) {
  struct timespec second = {.tv_sec = 1};
  bool pending = false;
  sv_stamp seen[3];
  for (;;) {
    int number = sigtimedwait(signals, NULL, &second);
    if (number == SIGTERM || number == SIGINT) break;
    if (number == SIGHUP) reload_quietly(s, ctx);
    sv_http_watch(s);
    watch_files(s, ctx, &pending, seen);
  }
}

/* What has arrived is answered, as long as that takes no longer than a request may; a second signal ends it. */
static void finish(sv_server *s, const sigset_t *signals) {
  double begun = sv_now();
  struct timespec moment = {.tv_nsec = 20000000};
  atomic_store(&s->stopping, true);
  sv_http_quiesce(s);
  while (sv_http_busy(s) > 0 && sv_now() - begun < s->options.timeout) {
    int number = sigtimedwait(signals, NULL, &moment);
    if (number == SIGTERM || number == SIGINT) break;
    sv_http_watch(s);
  }
}

static kf_status start(sv_server *s, char *message, size_t size) {
  s->queue = sv_queue_new(s);
  if (!s->queue || !sv_queue_start(s->queue)) {
    snprintf(message, size, "the threads of the server cannot be started");
    return KF_ERR_MEM;
  }
  return sv_http_start(s, message, size);
}

static void announce(sv_server *s) {
  const char *host = s->options.host ? s->options.host : "127.0.0.1";
  bool six = strchr(host, ':') != NULL;
  sv_log(s, "serving %s at http://%s%s%s:%u/", s->demo ? "the demo" : s->options.model,
         six ? "[" : "", host, six ? "]" : "", sv_http_port(s));
}

static void server_free(sv_server *s) {
  if (s->queue) sv_queue_stop(s->queue);
  sv_http_stop(s);
  sv_queue_free(s->queue);
  sv_state_free(s);
  sv_journal_free(s->journal);
  kf_encoder_free(s->encoder);
  free(s->text_mean);
  if (s->token) memset(s->token, 0, TOKEN_MOST);
  free(s->token);
  if (s->images >= 0) close(s->images);
  pthread_mutex_destroy(&s->world_lock);
  pthread_mutex_destroy(&s->change_lock);
  pthread_mutex_destroy(&s->log_lock);
  free(s);
}

/* Until it serves, a signal simply ends the process, unless it is ignored as nohup does. */
static void forget_handlers(void) {
  const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
  for (size_t i = 0; i < SV_COUNT_OF(numbers); i++) {
    struct sigaction before;
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      signal(numbers[i], SIG_DFL);
  }
}

static kf_status run(sv_server *s, char *message, size_t size) {
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  kf_ctx *ctx = sv_context(s, s->options.threads);
  if (!ctx) return KF_ERR_MEM;
  kf_status status = load(s, ctx, message, size); /* signals still end the process */
  pthread_sigmask(SIG_BLOCK, &signals,
                  &before); /* threads inherit it; only this one waits for them */
  if (status == KF_OK) status = start(s, message, size);
  if (status == KF_OK) {
    announce(s);
    serve(s, ctx, &signals);
    finish(s, &signals);
  }
  if (s->queue) sv_queue_stop(s->queue);
  sv_http_stop(s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  kf_ctx_free(ctx);
  return status;
}

kf_status sv_run(const sv_options *options, char *message, size_t size) {
  sv_server *s = calloc(1, sizeof *s);
  snprintf(message, size, "out of memory");
  if (!s) return KF_ERR_MEM;
  s->options = *options;
  s->demo = options->model == NULL;
  s->images = -1;
  s->begun = sv_now();
  atomic_init(&s->budget.left, options->memory);
  pthread_mutex_init(&s->world_lock, NULL);
  pthread_mutex_init(&s->change_lock, NULL);
  pthread_mutex_init(&s->log_lock, NULL);
  signal(SIGPIPE, SIG_IGN);
  forget_handlers();
  kf_status status = run(s, message, size);
  server_free(s);
  return status;
}
