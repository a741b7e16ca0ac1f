/* framing.c - refuses ambiguous requests, against request smuggling.
 *
 * If a proxy and this server disagree on where a request ends, the proxy forwards a second request
 * that it has not checked. So whatever RFC 9112 calls ambiguous is refused, and the connection is
 * closed.
 *
 * Before version 1.0, libmicrohttpd hides some ambiguities. It cuts lines at a NUL, takes a bare LF
 * for the end of a line, and appends a folded line to the name of its header ("Content-Length:" and
 * " 5" become "Content-Length5"). But it splits the head in place and only overwrites separators
 * with NULs. So the head must consist of exactly the strings that it passes on, with the right
 * number of separators between them. */
#include "server.h"

#include <microhttpd.h>
#include <string.h>

bool sv_target_is_plain(const char *target) {
  for (const char *c = target; *c; c++)
    if ((unsigned char)*c <= ' ' || *c == 0x7f || strncmp(c, "%00", 3) == 0) return false;
  return true;
}

/* --- lines, in place -------------------------------------------------------------------------- */

/* Moves *at past a string and its separators, now NULs. False: something else is there. */
static bool step(const char **at, const char *string, size_t n, size_t separators) {
  bool here = *at == string;
  for (size_t i = 0; here && i < separators; i++) here = string[n + i] == '\0';
  if (here) *at += n + separators;
  return here;
}

typedef struct head {
  const char *at; /* next byte to check; NULL: this libmicrohttpd checks lines itself */
  const char *problem;
  unsigned hosts, lengths, encodings;
  bool chunked;
} head;

static bool step_header(head *h, const char *name, size_t n_name, const char *value,
                        size_t n_value) {
  if (!h->at) return true;
  if (!step(&h->at, name, n_name, 1)) return false;
  h->at += strspn(h->at, " \t");
  return step(&h->at, value, n_value, 2);
}

/* --- the headers ------------------------------------------------------------------------------ */

static bool is_token(const char *name, size_t n) {
  static const char others[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)name[i];
    bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z', digit = c >= '0' && c <= '9';
    if (!letter && !digit && (c == '\0' || !strchr(others, c))) return false;
  }
  return n > 0;
}

static bool is_visible(const char *value, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f) return false;
  return true;
}

static enum MHD_Result check_header(void *user, enum MHD_ValueKind kind, const char *name,
                                    size_t n_name, const char *value, size_t n_value) {
  head *h = user;
  (void)kind;
  if (!step_header(h, name, n_name, value, n_value))
    h->problem = "a line is folded, contains a NUL or ends in a bare LF";
  else if (!is_token(name, n_name))
    h->problem = "the name of a header contains an invalid character";
  else if (!is_visible(value, n_value))
    h->problem = "a header contains a control character";
  h->hosts += strcasecmp(name, "Host") == 0;
  h->lengths += strcasecmp(name, "Content-Length") == 0;
  if (strcasecmp(name, "Transfer-Encoding") == 0) {
    h->encodings++;
    h->chunked = strcasecmp(value, "chunked") == 0;
  }
  return h->problem ? MHD_NO : MHD_YES;
}

static bool ends_at(struct MHD_Connection *connection, const char *method, const char *end) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  return info && end == method + info->header_size;
}

const char *sv_head_problem(struct MHD_Connection *connection, const char *method,
                            const char *target, size_t n_target, const char *version) {
  static const char request_line[] = "its first line is not a method, an address and a version";
  head h = {0};
  if (MHD_get_version()[0] == '0') {
    h.at = method;
    if (!step(&h.at, method, strlen(method), 1) || h.at != target) return request_line;
    h.at += n_target + 1; /* decoded since then, so strlen would be wrong */
    if (!step(&h.at, version, strlen(version), 2)) return request_line;
  }
  MHD_get_connection_values_n(connection, MHD_HEADER_KIND, check_header, &h);
  if (h.problem) return h.problem;
  if (h.at && !(step(&h.at, h.at, 0, 2) && ends_at(connection, method, h.at)))
    return "a line is folded, contains a NUL or ends in a bare LF";
  if (h.hosts > 1) return "it has two Host headers";
  if (h.lengths > 1) return "it has two Content-Length headers";
  if (h.lengths > 0 && h.encodings > 0) return "it has Content-Length and Transfer-Encoding";
  if (h.encodings > 1) return "it has two Transfer-Encoding headers";
  if (h.encodings > 0 && (!h.chunked || strcmp(version, "HTTP/1.1") != 0))
    return "it has a Transfer-Encoding other than chunked, or in HTTP/1.0";
  return NULL;
}
