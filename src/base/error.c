/* error.c - status codes and messages. */
#include "base/base.h"

#include <errno.h>
#include <string.h>

const char *kf_version(void) { return KF_VERSION; }

const char *kf_status_name(kf_status status) {
  switch (status) {
  case KF_OK: return "ok";
  case KF_ERR_ARG: return "bad argument";
  case KF_ERR_DATA: return "bad data";
  case KF_ERR_IO: return "input/output error";
  case KF_ERR_MEM: return "out of memory";
  case KF_ERR_MATH: return "no solution";
  case KF_ERR_CANCELLED: return "cancelled";
  case KF_ERR_INTERNAL: return "internal error";
  }
  return "unknown status";
}

/* `path`, if not NULL, begins the message. */
static kf_status fail(kf_err *err, kf_status status, kf_hint hint, const char *path,
                      const char *format, va_list arguments) {
  err->status = status;
  err->hint = hint;
  size_t n = 0;
  if (path != NULL) n = (size_t)snprintf(err->message, KF_WHERE_SIZE, "%s: ", path);
  if (n >= KF_WHERE_SIZE) n = KF_WHERE_SIZE - 1;
  vsnprintf(err->message + n, sizeof err->message - n, format, arguments);
  /* Messages quote paths and names from files: no control characters for a terminal. */
  for (char *c = err->message; *c != '\0'; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
  return status;
}

kf_status kf_fail(kf_err *err, kf_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail(err, status, KF_HINT_NONE, NULL, format, arguments);
  va_end(arguments);
  return status;
}

kf_status kf_fail_hint(kf_err *err, kf_status status, kf_hint hint, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail(err, status, hint, NULL, format, arguments);
  va_end(arguments);
  return status;
}

kf_status kf_fail_file(kf_err *err, const char *path, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail(err, KF_ERR_DATA, KF_HINT_NONE, path, format, arguments);
  va_end(arguments);
  return KF_ERR_DATA;
}

kf_status kf_fail_memory(kf_err *err) { return kf_fail(err, KF_ERR_MEM, "out of memory"); }

kf_status kf_fail_errno(kf_err *err, const char *path, const char *what, int code) {
  char text[128];
  /* The GNU strerror_r returns the text, which need not be in the buffer. */
  const char *reason = strerror_r(code, text, sizeof text);
  kf_status status = code == ENOMEM ? KF_ERR_MEM : KF_ERR_IO;
  return kf_fail(err, status, "%s: %s: %s", path, what, reason);
}

kf_status kf_check_reserved(const uint64_t *reserved, size_t bytes, const char *function,
                            kf_err *err) {
  for (size_t i = 0; i < bytes / sizeof *reserved; i++)
    if (reserved[i] != 0)
      return kf_fail(err, KF_ERR_ARG,
                     "%s: options use reserved space: not zeroed, or set for a koofu newer than %s",
                     function, KF_VERSION);
  return KF_OK;
}
