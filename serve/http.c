/* http.c - HTTP with libmicrohttpd (MHD): connections, limits, access, and the form of answers.
 *
 * A few threads of MHD share the connections (epoll). A request is read into memory, checked, and
 * answered on its thread if that is quick; otherwise the connection is suspended until a lane
 * (queue.c) has done the work. MHD's own timeout restarts with every byte, so a client could hold a
 * connection for ever by sending one now and then: sv_http_watch limits the total time instead. */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  HEADER_BYTES = 32 << 10,
  MAX_HTTP_THREADS = 4,
  BODY_CHUNK = 16 << 10,
  REFUSED_SECONDS = 5,
  SCARCE_SECONDS = 2,
  HUNG_UP_SECONDS = 1
};

/* REFUSED: answered early; nobody reads the body that may follow. */
typedef enum peer_phase { WAITING, RECEIVING, WORKING, SENDING, REFUSED } peer_phase;

typedef struct sv_peer {
  struct sv_peer *next, *before;
  int fd;
  atomic_int phase;
  _Atomic double since; /* when the phase began */
  bool cut;             /* shut down by sv_http_watch */
  const char *target;   /* the address of the request; MHD decodes it in place later */
  size_t n_target;      /* its length before that */
  bool plain;           /* sv_target_is_plain */
} sv_peer;

struct sv_http {
  struct MHD_Daemon *daemon;
  int listening; /* -1: closed, or owned by MHD */
  unsigned port;
  pthread_key_t context; /* of each thread of MHD */
  bool has_context;      /* the key was created */
  pthread_mutex_t lock;  /* for the list of peers */
  sv_peer *peers;
  atomic_uint n_peers;
};

double sv_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* NULL: there was no memory for one. */
static sv_peer *peer_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

/* A connection is WAITING between requests, and until all headers of one have arrived; its body
 * then has the full time again. */
static void enter_phase(sv_peer *peer, peer_phase phase) {
  atomic_store(&peer->since, sv_now());
  atomic_store(&peer->phase, (int)phase);
}

/* --- answers ---------------------------------------------------------------------------------- */

static const char *error_type(unsigned status) {
  switch (status) {
  case 401:
  case 403: return "unauthorized";
  case 404:
  case 405: return "not_found";
  case 413: return "too_large";
  case 415: return "unsupported";
  case 429:
  case 503: return "overloaded";
  default: return status >= 500 ? "internal" : "invalid_request_error";
  }
}

/* Sent when there may be no memory even for a message. */
static const char no_memory[] =
    "{\"error\":{\"message\":\"the server has no memory left for this request; "
    "try again later\",\"type\":\"overloaded\",\"code\":429}}\n";

void sv_answer(sv_request *r, unsigned status, const char *type) {
  r->status = status;
  r->type = type;
  if (r->out.failed) {
    r->status = 429;
    r->type = "application/json";
    r->json_head = 0;
    r->constant = no_memory;
    r->n_constant = sizeof no_memory - 1;
  }
  r->stage = SV_DONE;
}

void sv_answer_json(sv_request *r, unsigned status) {
  sv_json_close(&r->out, '}');
  sv_puts(&r->out, "\n");
  sv_answer(r, status, "application/json");
}

bool sv_fail(sv_request *r, unsigned status, const char *format, ...) {
  char message[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  sv_text *t = &r->out;
  t->n = 0; /* what was written so far */
  t->comma = false;
  sv_json_open(t, NULL, '{');
  sv_json_open(t, "error", '{');
  sv_json_string(t, "message", message);
  sv_json_string(t, "type", error_type(status));
  sv_json_count(t, "code", status);
  sv_json_close(t, '}');
  sv_answer_json(r, status);
  return false;
}

bool sv_fail_memory(sv_request *r) {
  r->out.failed = true;
  sv_answer(r, 429, NULL);
  return false;
}

bool sv_fail_status(sv_request *r, kf_ctx *ctx, kf_status status) {
  const char *message = kf_errmsg(ctx);
  unsigned code =
      status == KF_ERR_ARG || status == KF_ERR_DATA || status == KF_ERR_MATH ? 422 : 500;
  if (status == KF_ERR_MEM) code = 503;
  return sv_fail(r, code, "%s", *message ? message : kf_status_name(status));
}

const char *sv_header(sv_request *r, const char *name) {
  return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

const char *sv_arg(sv_request *r, const char *name) {
  return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

bool sv_arg_number(sv_request *r, const char *name, uint64_t low, uint64_t high, uint64_t *value) {
  const char *text = sv_arg(r, name);
  if (!text) return true;
  uint64_t n = 0;
  size_t digits = strspn(text, "0123456789");
  bool fine = digits > 0 && digits < 19 && text[digits] == '\0';
  for (size_t i = 0; fine && i < digits; i++) n = n * 10 + (uint64_t)(text[i] - '0');
  if (fine && n >= low && n <= high) {
    *value = n;
    return true;
  }
  return sv_fail(r, 422, "?%s= must be a whole number from %llu to %llu", name,
                 (unsigned long long)low, (unsigned long long)high);
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value) {
  return !value || MHD_add_response_header(response, name, value) == MHD_YES;
}

/* MHD 0.9 accepts chunks that end in a bare LF, which a proxy may read differently, and does not
 * say so. Therefore nothing after a chunked body is taken for a request. */
static bool is_last(sv_request *r) {
  return r->early || sv_header(r, "Transfer-Encoding") || atomic_load(&r->server->stopping);
}

static bool add_headers(sv_request *r, struct MHD_Response *m) {
  static const char api_policy[] = "default-src 'none'; frame-ancestors 'none'";
  char head[24];
  snprintf(head, sizeof head, "%u", r->json_head);
  return add_header(m, "Content-Type", r->type) &&
         add_header(m, "X-Content-Type-Options", "nosniff") &&
         add_header(m, "Referrer-Policy", "no-referrer") &&
         add_header(m, "Cross-Origin-Resource-Policy", "same-origin") &&
         add_header(m, "Content-Security-Policy", r->policy ? r->policy : api_policy) &&
         add_header(m, "Cache-Control", r->cache ? r->cache : "no-store") &&
         add_header(m, "ETag", r->etag) &&
         add_header(m, "Allow", r->status == 405 ? r->allow : NULL) &&
         add_header(m, "Inference-Header-Content-Length", r->json_head ? head : NULL) &&
         add_header(m, "Retry-After", r->status == 429 || r->status == 503 ? "1" : NULL) &&
         add_header(m, "WWW-Authenticate", r->status == 401 ? "Bearer" : NULL) &&
         add_header(m, "Connection", is_last(r) ? "close" : NULL);
}

static enum MHD_Result send_answer(sv_request *r) {
  void *bytes = r->constant ? (void *)(uintptr_t)r->constant : r->out.data;
  size_t n = r->constant ? r->n_constant : r->out.n;
  if (r->status == 204 || r->status == 304) n = 0;
  struct MHD_Response *m = MHD_create_response_from_buffer(n, n ? bytes : (void *)(uintptr_t) "",
                                                           MHD_RESPMEM_PERSISTENT);
  if (!m) return MHD_NO;
  enum MHD_Result result = MHD_NO;
  if (add_headers(r, m)) {
    r->answered = true;
    enter_phase(r->peer, r->early ? REFUSED : SENDING);
    result = MHD_queue_response(r->connection, r->status, m);
  }
  MHD_destroy_response(m);
  return result;
}

/* --- access ----------------------------------------------------------------------------------- */

/* A Host header is NAME, NAME:PORT, [ADDRESS] or [ADDRESS]:PORT; the name goes to out. */
static bool host_name(const char *host, char *out, size_t size) {
  size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
  const char *port = host + n;
  if (n == 0 || n >= size || (*host == '[' && host[n - 1] != ']')) return false;
  if (*port == ':') port += 1 + strspn(port + 1, "0123456789");
  if (*port != '\0') return false;
  memcpy(out, host, n);
  out[n] = '\0';
  return true;
}

static bool is_address(const char *name) {
  unsigned char address[sizeof(struct in6_addr)];
  char inner[INET6_ADDRSTRLEN];
  size_t n = strlen(name);
  if (name[0] != '[') return inet_pton(AF_INET, name, address) == 1;
  if (n < 2 || n - 2 >= sizeof inner) return false;
  memcpy(inner, name + 1, n - 2);
  inner[n - 2] = '\0';
  return inet_pton(AF_INET6, inner, address) == 1;
}

/* Against DNS rebinding: a page of another site can make a browser send requests here under the
 * name of that site, but never under an address, localhost or a name of this server. */
static bool known_host(const sv_server *s, const char *host) {
  char name[256];
  if (!host_name(host, name, sizeof name)) return false;
  if (is_address(name) || strcasecmp(name, "localhost") == 0) return true;
  if (s->options.host && strcasecmp(name, s->options.host) == 0) return true;
  for (size_t i = 0; i < s->options.n_hosts; i++)
    if (strcasecmp(name, s->options.hosts[i]) == 0) return true;
  return false;
}

/* Browsers send Origin with requests that change something; it must be that of the server's own
 * page. */
static bool same_origin(const char *origin, const char *host) {
  const char *name = strncmp(origin, "http://", 7) == 0    ? origin + 7
                     : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                           : NULL;
  return name && strcasecmp(name, host) == 0;
}

/* In constant time: it does not depend on where the two differ. */
static bool same_token(const char *given, const char *token) {
  size_t n = strlen(token), m = strlen(given);
  volatile unsigned char differs = n != m;
  for (size_t i = 0; i < n; i++) differs |= (unsigned char)(token[i] ^ given[m > 0 ? i % m : 0]);
  return differs == 0;
}

static bool has_token(sv_request *r) {
  const char *given = sv_header(r, "Authorization");
  if (!r->server->token) return true;
  return given && strncasecmp(given, "Bearer ", 7) == 0 && same_token(given + 7, r->server->token);
}

static bool may_ask(sv_request *r) {
  const char *host = sv_header(r, "Host"), *origin = sv_header(r, "Origin");
  const char *site = sv_header(r, "Sec-Fetch-Site");
  if (!host || !known_host(r->server, host))
    return sv_fail(r, 403, "unknown Host; add it with --allow-host");
  if ((origin && !same_origin(origin, host)) ||
      (site && strcmp(site, "cross-site") == 0 && !sv_is_file(r->path)))
    return sv_fail(r, 403, "cross-site requests are not allowed");
  if (!(r->route && r->route->open) && !has_token(r))
    return sv_fail(r, 401, "a token is needed: Authorization: Bearer TOKEN");
  return true;
}

/* The address of a request, before MHD decodes it and reads the headers. */
static void *see_target(void *server, const char *target, struct MHD_Connection *connection) {
  sv_peer *peer = peer_of(connection);
  (void)server;
  if (peer) {
    peer->target = target;
    peer->n_target = strlen(target);
    peer->plain = sv_target_is_plain(target);
  }
  return NULL; /* no state of the request yet */
}

static bool is_framed(sv_request *r, const char *method, const char *version) {
  const sv_peer *peer = r->peer;
  const char *problem =
      peer->plain ? sv_head_problem(r->connection, method, peer->target, peer->n_target, version)
                  : "its address contains a NUL, a space or a control character";
  if (!problem) return true;
  sv_fail(r, 400, "the request is ambiguous: %s", problem);
  r->early = true;
  return false;
}

/* --- a request -------------------------------------------------------------------------------- */

static void find_route(sv_request *r) {
  r->route = sv_route_of(r->method, r->path, r->allow, sizeof r->allow);
  if (r->route && strchr(r->route->path, '*')) r->rest = r->path + strlen(r->route->path) - 1;
}

static void refuse_route(sv_request *r) {
  if (*r->allow)
    sv_fail(r, 405, "this address accepts %s", r->allow);
  else
    sv_fail(r, 404, "there is nothing at this address");
}

static enum MHD_Result check_arg(void *request, enum MHD_ValueKind kind, const char *name,
                                 const char *value) {
  sv_request *r = request;
  size_t n = strlen(name);
  (void)kind;
  (void)value;
  for (const char *c = r->route->args; *c; c += strcspn(c, " ") + 1)
    if (n > 0 && strncmp(c, name, n) == 0 && c[n] == ' ') return MHD_YES;
  sv_fail(r, 422, "unknown parameter '?%.60s='", name);
  return MHD_NO;
}

/* What the address does not take is refused, as are unknown fields of a body. */
static void check_args(sv_request *r) {
  if (r->route->args) MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, check_arg, r);
}

/* The announced length of the body; UINT64_MAX: it is chunked. */
static uint64_t body_length(sv_request *r) {
  const char *length = sv_header(r, "Content-Length");
  if (sv_header(r, "Transfer-Encoding")) return UINT64_MAX;
  return length ? strtoull(length, NULL, 10) : 0;
}

static bool check_body(sv_request *r) {
  uint64_t n = body_length(r);
  if (n == UINT64_MAX || n <= r->server->options.max_body) return true;
  return sv_fail(r, 413, "the body has %llu bytes; the limit is %llu", (unsigned long long)n,
                 (unsigned long long)r->server->options.max_body);
}

/* Whether to refuse a request before reading its body: if the client waits for permission (Expect),
 * or if the body is far too large. Otherwise the body is read and discarded first, since a client
 * that is still sending when the connection closes may never see the answer. */
static bool may_refuse_early(sv_request *r) {
  uint64_t n = body_length(r);
  return sv_header(r, "Expect") || (n != UINT64_MAX && n / 4 > r->server->options.max_body);
}

static sv_request *request_new(sv_server *s, struct MHD_Connection *connection, const char *url,
                               const char *method) {
  sv_peer *peer = peer_of(connection);
  sv_request *r = peer ? calloc(1, sizeof *r) : NULL;
  if (!r) return NULL;
  r->server = s;
  r->connection = connection;
  r->peer = peer;
  r->arena.budget = &s->budget;
  r->out.arena = &r->arena;
  snprintf(r->method, sizeof r->method, "%s", strcmp(method, "HEAD") == 0 ? "GET" : method);
  r->path = url;
  r->begun = sv_now();
  r->stage = SV_PARSE;
  return r;
}

static void request_free(sv_request *r) {
  if (r->world) sv_world_put(r->world);
  if (r->owned) r->release(r->owned);
  sv_release(&r->arena);
  free(r);
}

static void take_body(sv_request *r, const char *data, size_t n) {
  r->seen += n;
  if (r->too_large || r->no_memory || r->stage == SV_DONE) return;
  if (r->seen > r->server->options.max_body) {
    r->too_large = true;
  } else if (r->n_body + n + 1 > r->room) {
    size_t room = r->room ? r->room * 2 : BODY_CHUNK;
    while (room < r->n_body + n + 1) room *= 2;
    char *body = sv_resize(&r->arena, r->body, room);
    r->no_memory = body == NULL;
    if (body) {
      r->body = body;
      r->room = room;
    }
  }
  if (r->too_large || r->no_memory) {
    sv_give(&r->arena, r->body);
    r->body = NULL;
    r->n_body = r->room = 0;
    return;
  }
  memcpy(r->body + r->n_body, data, n);
  r->n_body += n;
  r->body[r->n_body] = '\0';
}

/* --- the handler ------------------------------------------------------------------------------ */

static kf_ctx *thread_context(sv_server *s) {
  kf_ctx *ctx = pthread_getspecific(s->http->context);
  if (ctx) return ctx;
  ctx = sv_context(s, 1, false);
  if (ctx && pthread_setspecific(s->http->context, ctx) != 0) {
    kf_ctx_free(ctx);
    ctx = NULL;
  }
  return ctx;
}

static void free_context(void *ctx) { kf_ctx_free(ctx); }

/* The whole request has arrived. */
static enum MHD_Result dispatch(sv_request *r) {
  sv_server *s = r->server;
  kf_ctx *ctx = thread_context(s);
  r->dispatched = true;
  enter_phase(r->peer, WORKING);
  if (r->stage == SV_DONE) return send_answer(r); /* refused before its body arrived */
  if (r->too_large)
    sv_fail(r, 413, "the body has more than %llu bytes", (unsigned long long)s->options.max_body);
  else if (r->no_memory || !ctx)
    sv_fail_memory(r);
  if (r->stage == SV_DONE) return send_answer(r);
  r->world = sv_world_get(s);
  sv_advance(r, ctx, SV_HERE);
  if (r->stage == SV_DONE) return send_answer(r);
  MHD_suspend_connection(r->connection);
  if (sv_queue_push(s->queue, r)) return MHD_YES;
  sv_fail(r, 429, "%u requests are waiting already; try again later", s->options.queue);
  MHD_resume_connection(r->connection);
  return MHD_YES;
}

static enum MHD_Result begin(sv_server *s, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, void **memory) {
  sv_request *r = request_new(s, connection, url, method);
  if (!r) return MHD_NO;
  *memory = r;
  enter_phase(r->peer, RECEIVING);
  find_route(r);
  if (is_framed(r, method, version) && may_ask(r) && check_body(r))
    r->route ? check_args(r) : refuse_route(r);
  if (r->stage == SV_DONE && may_refuse_early(r)) r->early = true;
  return r->early ? send_answer(r) : MHD_YES;
}

/* Chunked bodies have no announced length; one that is far too large is not read to its end. */
static bool endless(const sv_request *r) { return r->seen / 4 > r->server->options.max_body; }

static enum MHD_Result handle(void *server, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data, size_t *n,
                              void **memory) {
  sv_request *r = *memory;
  if (!r) return begin(server, connection, url, method, version, memory);
  if (*n > 0) {
    take_body(r, data, *n);
    *n = 0;
    return endless(r) ? MHD_NO : MHD_YES;
  }
  if (r->answered) return MHD_YES;
  return r->dispatched ? send_answer(r) : dispatch(r);
}

void sv_http_resume(sv_request *r) { MHD_resume_connection(r->connection); }

static void log_request(const sv_request *r) {
  double ms = 1e3 * (sv_now() - r->begun);
  if (r->server->options.verbose)
    sv_log(r->server, "%s %s %u %.1f ms", r->method, r->path, r->status, ms);
}

static void completed(void *server, struct MHD_Connection *connection, void **memory,
                      enum MHD_RequestTerminationCode why) {
  sv_request *r = *memory;
  (void)server;
  (void)connection;
  (void)why;
  if (!r) return;
  *memory = NULL;
  if (r->answered) {
    sv_count(&r->server->metrics, r);
    log_request(r);
  }
  enter_phase(r->peer, WAITING);
  request_free(r);
}

/* --- connections ------------------------------------------------------------------------------ */

static void peer_open(sv_http *http, struct MHD_Connection *connection, void **context) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  sv_peer *peer = info ? calloc(1, sizeof *peer) : NULL;
  if (!peer) return;
  peer->fd = info->connect_fd;
  atomic_init(&peer->since, sv_now());
  pthread_mutex_lock(&http->lock);
  peer->next = http->peers;
  if (peer->next) peer->next->before = peer;
  http->peers = peer;
  pthread_mutex_unlock(&http->lock);
  atomic_fetch_add(&http->n_peers, 1);
  *context = peer;
}

static void peer_close(sv_http *http, sv_peer *peer) {
  if (!peer) return;
  pthread_mutex_lock(&http->lock);
  if (peer->next) peer->next->before = peer->before;
  if (peer->before)
    peer->before->next = peer->next;
  else
    http->peers = peer->next;
  pthread_mutex_unlock(&http->lock);
  atomic_fetch_sub(&http->n_peers, 1);
  free(peer);
}

static void notice(void *server, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode what) {
  sv_http *http = ((sv_server *)server)->http;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    peer_open(http, connection, context);
  } else {
    peer_close(http, *context);
    *context = NULL;
  }
}

/* Whether connections or, because of answers that clients do not read, memory run short. */
static bool is_scarce(const sv_server *s, peer_phase phase) {
  if (atomic_load(&s->http->n_peers) > s->options.connections / 4 * 3) return true;
  return phase == SENDING && atomic_load(&s->budget.left) < s->options.memory / 4;
}

/* Seconds that a connection may spend in a phase: fewer if resources run short. */
static double patience(const sv_server *s, peer_phase phase) {
  double seconds = s->options.timeout;
  if (phase == WORKING) return 1e9; /* lanes have their own limit */
  if (phase == SENDING) seconds *= 4;
  if (phase == REFUSED && seconds > REFUSED_SECONDS) seconds = REFUSED_SECONDS;
  return seconds > SCARCE_SECONDS && is_scarce(s, phase) ? SCARCE_SECONDS : seconds;
}

/* Whether the client has closed its side and so will not send the rest. MHD can miss that: with
 * edge-triggered epoll it takes a short read for the end of the data. */
static bool has_hung_up(const sv_peer *peer, peer_phase phase) {
  struct pollfd poll_for = {.fd = peer->fd, .events = POLLRDHUP};
  return (phase == WAITING || phase == RECEIVING) && poll(&poll_for, 1, 0) == 1;
}

void sv_http_watch(sv_server *s) {
  sv_http *http = s->http;
  double now = sv_now();
  pthread_mutex_lock(&http->lock);
  for (sv_peer *peer = http->peers; peer; peer = peer->next) {
    peer_phase phase = (peer_phase)atomic_load(&peer->phase);
    double waited = now - atomic_load(&peer->since);
    if (peer->cut || waited < HUNG_UP_SECONDS) continue;
    if (waited < patience(s, phase) && !has_hung_up(peer, phase)) continue;
    peer->cut = true;
    shutdown(peer->fd, SHUT_RDWR); /* MHD closes it after notice, which waits for this lock */
    atomic_fetch_add(&s->metrics.cut_off, 1);
  }
  pthread_mutex_unlock(&http->lock);
}

unsigned sv_http_busy(sv_server *s) {
  sv_http *http = s->http;
  unsigned n = 0;
  pthread_mutex_lock(&http->lock);
  for (const sv_peer *peer = http->peers; peer; peer = peer->next) {
    int phase = atomic_load(&peer->phase);
    n += phase != WAITING && phase != REFUSED;
  }
  pthread_mutex_unlock(&http->lock);
  return n;
}

unsigned sv_http_connections(const sv_server *s) {
  return s->http ? atomic_load(&s->http->n_peers) : 0;
}

/* --- starting and stopping -------------------------------------------------------------------- */

static int listen_at(const struct addrinfo *where, int *error) {
  int on = 1, fd = socket(where->ai_family, where->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          where->ai_protocol);
  if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
    return fd;
  *error = errno;
  if (fd >= 0) close(fd);
  return -1;
}

static bool is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET)
    return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24) ==
           127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static unsigned port_of(int fd) {
  struct sockaddr_in6 own = {0}; /* sin6_port is at the offset of sin_port */
  socklen_t n = sizeof own;
  if (getsockname(fd, (struct sockaddr *)&own, &n) != 0) return 0;
  return ntohs(own.sin6_port);
}

static kf_status open_socket(sv_server *s, char *message, size_t size) {
  const char *host = s->options.host ? s->options.host : "127.0.0.1";
  struct addrinfo wanted = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  char port[8];
  snprintf(port, sizeof port, "%u", s->options.port);
  int error = getaddrinfo(host, port, &wanted, &found);
  if (error == EAI_MEMORY || (error == EAI_SYSTEM && errno == ENOMEM)) return KF_ERR_MEM;
  if (error != 0) {
    snprintf(message, size, "%s: %s", host, gai_strerror(error));
    return error == EAI_SYSTEM ? KF_ERR_IO : KF_ERR_ARG;
  }
  kf_status status = KF_OK;
  if (!s->token && !is_loopback(found->ai_addr)) {
    snprintf(message, size,
             "%s can be reached from other machines: a token is required (--token-file FILE)",
             host);
    status = KF_ERR_ARG;
  } else {
    s->http->listening = listen_at(found, &error);
    if (s->http->listening < 0) {
      snprintf(message, size, "cannot listen on %s port %s: %s", host, port, strerror(error));
      status = KF_ERR_IO;
    }
  }
  freeaddrinfo(found);
  if (status == KF_OK) s->http->port = port_of(s->http->listening);
  return status;
}

static void discard_log(void *user, const char *format, va_list list) {
  (void)user;
  (void)format;
  (void)list;
}

/* MHD would abort without a message. */
static _Noreturn void on_panic(void *server, const char *file, unsigned line, const char *why) {
  (void)server;
  fprintf(stderr, "koofu serve: fatal: %s (%s, line %u)\n", why ? why : "a bug in libmicrohttpd",
          file, line);
  _exit(1);
}

/* No new connections while the server stops. (MHD_quiesce_daemon would do this, but then two
 * threads of MHD may take the socket out of one epoll set, and one of them fails for good.) */
static enum MHD_Result may_connect(void *server, const struct sockaddr *who, socklen_t n) {
  (void)who;
  (void)n;
  return atomic_load(&((sv_server *)server)->stopping) ? MHD_NO : MHD_YES;
}

static void start_daemon(sv_server *s) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned threads = processors < 2                  ? 2
                     : processors > MAX_HTTP_THREADS ? MAX_HTTP_THREADS
                                                     : (unsigned)processors;
  if (threads > s->options.connections) threads = s->options.connections;
  unsigned flags =
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_ITC;
  struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL},
                                  {MHD_OPTION_END, 0, NULL}};
  struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
  s->http->daemon = MHD_start_daemon(
      flags, 0, may_connect, s, handle, s, MHD_OPTION_EXTERNAL_LOGGER, discard_log, NULL,
      MHD_OPTION_LISTEN_SOCKET, s->http->listening, MHD_OPTION_CONNECTION_LIMIT,
      s->options.connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
      MHD_OPTION_CONNECTION_TIMEOUT, 4 * s->options.timeout, MHD_OPTION_NOTIFY_COMPLETED, completed,
      NULL, MHD_OPTION_NOTIFY_CONNECTION, notice, s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
      MHD_OPTION_URI_LOG_CALLBACK, see_target, s, MHD_OPTION_ARRAY, threads > 1 ? pool : none,
      MHD_OPTION_END);
}

kf_status sv_http_start(sv_server *s, char *message, size_t size) {
  s->http = calloc(1, sizeof *s->http);
  if (!s->http) return KF_ERR_MEM;
  s->http->listening = -1;
  pthread_mutex_init(&s->http->lock, NULL);
  s->http->has_context = pthread_key_create(&s->http->context, free_context) == 0;
  if (!s->http->has_context) return KF_ERR_MEM;
  kf_status status = open_socket(s, message, size);
  if (status != KF_OK) return status;
  MHD_set_panic_func(on_panic, NULL);
  errno = 0;
  start_daemon(s);
  if (s->http->daemon) {
    s->http->listening = -1;
    return KF_OK;
  }
  bool memory = errno == ENOMEM || errno == EAGAIN || errno == 0; /* MHD does not always set it */
  if (memory) return KF_ERR_MEM;
  snprintf(message, size, "the server cannot be started: %s", strerror(errno));
  return KF_ERR_IO;
}

unsigned sv_http_port(const sv_server *s) { return s->http->port; }

void sv_http_stop(sv_server *s) {
  if (!s->http) return;
  if (s->http->daemon) MHD_stop_daemon(s->http->daemon);
  if (s->http->listening >= 0) close(s->http->listening);
  if (s->http->has_context) pthread_key_delete(s->http->context);
  pthread_mutex_destroy(&s->http->lock);
  free(s->http);
  s->http = NULL;
}
