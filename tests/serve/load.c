/* load.c - many connections that send requests to a server on this machine without a pause, each
 * waiting for its answer.
 *
 * usage: load PORT CONNECTIONS SECONDS WEIGHT METHOD PATH TYPE FILE [WEIGHT METHOD PATH TYPE
 * FILE]...
 *
 * FILE holds the body ("-": none). Prints one JSON object: requests by status, rate, and
 * percentiles of the time from the first byte sent to the last one received, in milliseconds. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { MAX_KINDS = 32, BUFFER = 1 << 16, BUCKETS = 1 << 17 };

typedef struct kind {
  double weight;
  char *bytes; /* the whole request */
  size_t n;
} kind;

typedef struct connection {
  int fd;
  const kind *kind;
  size_t sent;
  char head[4096]; /* of the answer, until it is complete */
  size_t n_head;
  long long left; /* bytes of its body; -1: the head is not complete */
  int status;
  double begun;
} connection;

static kind kinds[MAX_KINDS];
static int n_kinds, port;
static unsigned long by_status[600], broken, done;
static unsigned long buckets[BUCKETS]; /* of 20 microseconds; the last one: more */
static double longest;
static uint64_t state = 88172645463325252u;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static char *read_file(const char *path, size_t *n) {
  *n = 0;
  if (strcmp(path, "-") == 0) return NULL;
  FILE *file = fopen(path, "rb");
  if (!file) die(path);
  fseek(file, 0, SEEK_END);
  *n = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*n + 1);
  if (!bytes || fread(bytes, 1, *n, file) != *n) die(path);
  fclose(file);
  return bytes;
}

static void add_kind(char **words) {
  size_t n_body;
  char *body = read_file(words[4], &n_body);
  kind *k = &kinds[n_kinds++];
  k->weight = atof(words[0]);
  k->bytes = malloc(n_body + 1024);
  if (!k->bytes) die("malloc");
  int n = snprintf(
      k->bytes, 1024,
      "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
      words[1], words[2], words[3], n_body);
  k->n = (size_t)n + n_body;
  if (n_body > 0) memcpy(k->bytes + n, body, n_body);
  free(body);
}

static const kind *choose(void) {
  double all = 0;
  for (int i = 0; i < n_kinds; i++) all += kinds[i].weight;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  double at = all * (double)(state >> 11) / 9007199254740992.0;
  for (int i = 0; i < n_kinds; i++)
    if ((at -= kinds[i].weight) < 0) return &kinds[i];
  return &kinds[n_kinds - 1];
}

static void connect_to(connection *c) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int on = 1;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0) die("connect");
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void begin(connection *c) {
  c->kind = choose();
  c->sent = c->n_head = 0;
  c->left = -1;
  c->begun = now();
}

static void finish(connection *c) {
  double seconds = now() - c->begun;
  size_t bucket = (size_t)(seconds / 20e-6);
  buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
  if (seconds > longest) longest = seconds;
  by_status[c->status]++;
  done++;
}

/* The head has ended at `end`. */
static void read_head(connection *c, const char *end) {
  const char *length = strcasestr(c->head, "\r\ncontent-length:");
  c->status = atoi(c->head + 9);
  if (c->status < 100 || c->status > 599) c->status = 0;
  c->left = length && length < end ? atoll(length + 17) : 0;
  c->left -= (long long)(c->n_head - (size_t)(end + 4 - c->head));
}

/* 0: continue later; 1: the answer is complete; -1: the connection is broken. */
static int take(connection *c) {
  static char bytes[BUFFER];
  for (;;) {
    char *to = c->left < 0 ? c->head + c->n_head : bytes;
    size_t room = c->left < 0 ? sizeof c->head - 1 - c->n_head : sizeof bytes;
    if (room == 0) return -1;
    ssize_t n = recv(c->fd, to, room, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return -1;
    if (c->left < 0) {
      c->n_head += (size_t)n;
      c->head[c->n_head] = '\0';
      const char *end = strstr(c->head, "\r\n\r\n");
      if (end) read_head(c, end);
      if (!end) continue;
    } else {
      c->left -= n;
    }
    if (c->left == 0) return 1;
  }
}

static int give(connection *c) {
  while (c->sent < c->kind->n) {
    ssize_t n = send(c->fd, c->kind->bytes + c->sent, c->kind->n - c->sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n < 0) return -1;
    c->sent += (size_t)n;
  }
  return 1;
}

static void watch(int epoll, connection *c, int how) {
  struct epoll_event event = {.events = EPOLLIN | (c->sent < c->kind->n ? (uint32_t)EPOLLOUT : 0u),
                              .data.ptr = c};
  if (epoll_ctl(epoll, how, c->fd, &event) != 0) die("epoll_ctl");
}

static void again(int epoll, connection *c) {
  close(c->fd);
  broken++;
  connect_to(c);
  begin(c);
  give(c);
  watch(epoll, c, EPOLL_CTL_ADD);
}

static void serve_event(int epoll, connection *c) {
  size_t sent = c->sent;
  int result = give(c);
  if (result >= 0) result = take(c);
  if (result < 0) {
    again(epoll, c);
    return;
  }
  if (result == 1) {
    finish(c);
    begin(c);
    if (give(c) < 0) {
      again(epoll, c);
      return;
    }
  }
  if (sent < c->kind->n || c->sent < c->kind->n) watch(epoll, c, EPOLL_CTL_MOD);
}

static double percentile(double share) {
  unsigned long wanted = (unsigned long)(share * (double)done), seen = 0;
  for (int i = 0; i < BUCKETS - 1; i++)
    if ((seen += buckets[i]) > wanted) return 20e-3 * (i + 1);
  return 1e3 * longest;
}

static void print(double seconds) {
  printf("{\"seconds\": %.2f, \"requests\": %lu, \"per_second\": %.0f, \"broken\": %lu, "
         "\"p50_ms\": %.2f, "
         "\"p90_ms\": %.2f, \"p99_ms\": %.2f, \"longest_ms\": %.2f, \"status\": {",
         seconds, done, (double)done / seconds, broken, percentile(0.5), percentile(0.9),
         percentile(0.99), 1e3 * longest);
  const char *comma = "";
  for (int i = 0; i < 600; i++)
    if (by_status[i]) {
      printf("%s\"%d\": %lu", comma, i, by_status[i]);
      comma = ", ";
    }
  puts("}}");
}

int main(int argc, char **argv) {
  if (argc < 9 || (argc - 4) % 5 != 0 || (argc - 4) / 5 > MAX_KINDS) {
    fputs("usage: load PORT CONNECTIONS SECONDS WEIGHT METHOD PATH TYPE FILE ...\n", stderr);
    return 2;
  }
  int n = atoi(argv[2]), epoll = epoll_create1(0);
  double limit = atof(argv[3]);
  port = atoi(argv[1]);
  for (int i = 4; i < argc; i += 5) add_kind(argv + i);
  connection *all = calloc((size_t)n, sizeof *all);
  if (!all || epoll < 0) die("memory");
  double begun = now();
  for (int i = 0; i < n; i++) {
    connect_to(&all[i]);
    begin(&all[i]);
    give(&all[i]);
    watch(epoll, &all[i], EPOLL_CTL_ADD);
  }
  while (now() - begun < limit) {
    struct epoll_event events[256];
    int found = epoll_wait(epoll, events, 256, 100);
    for (int i = 0; i < found; i++) serve_event(epoll, events[i].data.ptr);
  }
  print(now() - begun);
  for (int i = 0; i < n; i++) close(all[i].fd);
  free(all);
  for (int i = 0; i < n_kinds; i++) free(kinds[i].bytes);
  close(epoll);
  return 0;
}
