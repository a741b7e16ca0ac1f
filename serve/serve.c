/* serve.c - the life of the server: loads everything, starts the threads, checks signals, files and
 * slow clients once a second, and stops when every request that has arrived is answered. */
#include "journal.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* MAX_PIXELS: a third of the library's limit, but more than most cameras have. Such a picture takes
 * 192 MB (twice that while it is rotated) and a third of a second to decode. */
enum { MIN_TOKEN = 16, MAX_TOKEN = 4096, MAX_PIXELS = 64000000 };

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

static void log_note(void *server, const char *note) { sv_log(server, "%s", note); }

kf_ctx *sv_context(sv_server *s, unsigned threads, bool notes) {
  kf_ctx *ctx = NULL;
  kf_ctx_options options = {.threads = threads,
                            .log = notes ? log_note : NULL,
                            .user = s,
                            .isa = s->options.isa,
                            .any_encoder = s->options.any_encoder,
                            .device = s->options.device,
                            .device_plugin = s->options.device_plugin};
  return kf_ctx_new(&options, &ctx) == KF_OK ? ctx : NULL;
}

int sv_open_folder(const char *path) {
  int fd;
  do fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return fd;
}

bool sv_read_all(int fd, char *to, size_t room, size_t *n) {
  for (*n = 0; *n < room;) {
    ssize_t more = read(fd, to + *n, room - *n);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return more == 0;
    *n += (size_t)more;
  }
  return true;
}

ssize_t sv_read_file(const char *path, char *to, size_t room) {
  int fd;
  size_t n = 0;
  do fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return -1;
  bool fine = sv_read_all(fd, to, room, &n);
  int error = errno;
  close(fd);
  errno = error;
  return fine ? (ssize_t)n : -1;
}

/* --- the token -------------------------------------------------------------------------------- */

static kf_status check_token(const char *path, char *token, size_t n, char *message, size_t size) {
  while (n > 0 && strchr(" \t\r\n", token[n - 1])) n--;
  token[n] = '\0';
  for (size_t i = 0; i < n; i++)
    if (token[i] <= ' ' || token[i] >= 0x7f) n = 0;
  if (n >= MIN_TOKEN) return KF_OK;
  snprintf(message, size, "%s: a token must have at least %d visible characters and no spaces",
           path, MIN_TOKEN);
  return KF_ERR_DATA;
}

static kf_status read_token(sv_server *s, char *message, size_t size) {
  const char *path = s->options.token_file;
  if (!path) return KF_OK;
  s->token = calloc(1, MAX_TOKEN + 2);
  if (!s->token) return KF_ERR_MEM;
  ssize_t n =
      sv_read_file(path, s->token, MAX_TOKEN + 1); /* one more byte shows that it is longer */
  if (n > MAX_TOKEN) {
    snprintf(message, size, "%s: a token file must have at most %d bytes", path, MAX_TOKEN);
    return KF_ERR_DATA;
  }
  if (n >= 0) return check_token(path, s->token, (size_t)n, message, size);
  snprintf(message, size, "%s: cannot be read: %s", path, strerror(errno));
  return KF_ERR_IO;
}

/* --- loading ---------------------------------------------------------------------------------- */

static kf_status load_encoder(sv_server *s, kf_ctx *ctx, char *message, size_t size) {
  kf_encoder_options options = {.precision = s->options.precision,
                                .max_pixels = s->options.max_pixels};
  if (!s->options.encoder) return KF_OK;
  if (options.max_pixels == 0) options.max_pixels = MAX_PIXELS;
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
  s->images = sv_open_folder(s->options.images);
  if (s->images >= 0) return KF_OK;
  snprintf(message, size, "%s: cannot be opened: %s", s->options.images, strerror(errno));
  return KF_ERR_IO;
}

/* That of the demo is temporary. */
static kf_status new_journal(sv_server *s) {
  char *folder = NULL;
  if (s->demo || s->options.journal) return sv_journal_new(s, s->options.journal, &s->journal);
  if (asprintf(&folder, "%s.journal", s->options.model) < 0) return KF_ERR_MEM;
  kf_status status = sv_journal_new(s, folder, &s->journal);
  free(folder);
  return status;
}

static kf_status load_all(sv_server *s, kf_ctx *ctx, char *message, size_t size) {
  kf_status status = read_token(s, message, size);
  if (status == KF_OK) status = new_journal(s);
  if (status == KF_OK) status = sv_journal_take(s->journal, message, size); /* fails early */
  if (status == KF_OK) status = open_images(s, message, size);
  if (status == KF_OK) status = load_encoder(s, ctx, message, size);
  if (status == KF_OK) status = sv_state_load(s, ctx, message, size);
  return status;
}

/* --- running ---------------------------------------------------------------------------------- */

/* The lock keeps out changes of classes, which the new world would lack. */
static void reload(sv_server *s, kf_ctx *ctx) {
  char message[1024] = "out of memory";
  pthread_mutex_lock(&s->change_lock);
  kf_status status = sv_state_load(s, ctx, message, sizeof message);
  pthread_mutex_unlock(&s->change_lock);
  if (status == KF_OK) {
    atomic_fetch_add(&s->metrics.reloads, 1);
    sv_log(s, "reloaded %s", s->demo ? "the demo" : s->options.model);
  } else {
    atomic_fetch_add(&s->metrics.failed_reloads, 1);
    sv_log(s, "reload failed; still serving the previous version: %s", message);
  }
}

/* A file being copied changes again and again, so files are loaded once they have been stable for a
 * second. */
static void watch_files(sv_server *s, kf_ctx *ctx, bool *pending, sv_stamps *seen) {
  sv_stamps now;
  if (!sv_state_changed(s, &now)) {
    *pending = false;
    return;
  }
  bool settled = *pending && memcmp(&now, seen, sizeof now) == 0;
  *seen = now;
  *pending = !settled;
  if (settled) reload(s, ctx);
}

/* --- signals ---------------------------------------------------------------------------------- */

/* Handlers, not a blocked mask and sigwait: threads of the caller's contexts, started earlier,
 * receive signals too. */
static volatile sig_atomic_t stops, reloads;
static sem_t wake;

static void on_signal(int number) {
  int error = errno;
  if (number == SIGHUP)
    reloads = 1;
  else
    stops = stops + 1;
  sem_post(&wake);
  errno = error;
}

/* Leaves signals ignored that were ignored at the start, as by nohup. */
static void set_handler(int number, void (*how)(int)) {
  struct sigaction before, action = {.sa_handler = how, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(number, &action, NULL);
}

static void set_handlers(void (*how)(int)) {
  set_handler(SIGTERM, how);
  set_handler(SIGINT, how);
  set_handler(SIGHUP, how);
}

/* Waits for a signal, but no longer than this. */
static void wait_for_signal(long nanoseconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += nanoseconds;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  sem_timedwait(&wake, &until);
}

static void watch(sv_server *s, kf_ctx *ctx) {
  bool pending = false;
  sv_stamps seen;
  while (!stops) {
    wait_for_signal(1000000000);
    if (stops) break;
    if (reloads) {
      reloads = 0;
      reload(s, ctx);
    }
    sv_http_watch(s);
    watch_files(s, ctx, &pending, &seen);
  }
}

/* Lets requests that have arrived be answered, for at most the time limit of a request; a second
 * signal cuts it short. */
static void finish(sv_server *s) {
  double begun = sv_now();
  int before = stops;
  atomic_store(&s->stopping, true);
  while (sv_http_busy(s) > 0 && sv_now() - begun < s->options.timeout && stops == before) {
    wait_for_signal(20000000);
    sv_http_watch(s);
  }
}

static kf_status start_threads(sv_server *s, char *message, size_t size) {
  s->queue = sv_queue_new(s);
  if (!s->queue || !sv_queue_start(s->queue)) return KF_ERR_MEM;
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
  if (s->token) memset(s->token, 0, MAX_TOKEN + 1);
  free(s->token);
  if (s->images >= 0) close(s->images);
  pthread_mutex_destroy(&s->world_lock);
  pthread_mutex_destroy(&s->change_lock);
  pthread_mutex_destroy(&s->log_lock);
  free(s);
}

static kf_status load_and_serve(sv_server *s, char *message, size_t size) {
  kf_ctx *ctx = sv_context(s, s->options.threads, false);
  if (!ctx) return KF_ERR_MEM;
  set_handlers(SIG_DFL); /* until then a signal ends the process */
  kf_status status = load_all(s, ctx, message, size);
  if (status == KF_OK) status = start_threads(s, message, size);
  if (status == KF_OK) {
    set_handlers(on_signal);
    if (s->options.check) {
      sv_log(s, "all is well: everything is loaded, and port %u is free", sv_http_port(s));
    } else {
      announce(s);
      watch(s, ctx);
    }
    finish(s);
  }
  if (s->queue) sv_queue_stop(s->queue);
  sv_http_stop(s);
  kf_ctx_free(ctx);
  return status;
}

kf_status sv_run(const sv_options *options, char *message, size_t size) {
  sv_server *s = calloc(1, sizeof *s);
  if (!s) {
    snprintf(message, size, "out of memory");
    return KF_ERR_MEM;
  }
  s->options = *options;
  s->demo = options->model == NULL;
  s->images = -1;
  s->begun = sv_now();
  atomic_init(&s->budget.left, options->memory);
  pthread_mutex_init(&s->world_lock, NULL);
  pthread_mutex_init(&s->change_lock, NULL);
  pthread_mutex_init(&s->log_lock, NULL);
  signal(SIGPIPE, SIG_IGN);
  sem_init(&wake, 0, 0);
  kf_status status = load_and_serve(s, message, size);
  if (status == KF_ERR_MEM) snprintf(message, size, "out of memory");
  server_free(s);
  return status;
}
