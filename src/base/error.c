/* error.c - status codes and messages. */
#include "base/text.h"

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

kf_status kf_fail_with(kf_err *err, kf_status status, kf_hint hint, const char *path,
                       const char *format, ...) {
  err->status = status;
  err->hint = hint;
  char text[sizeof err->message];
  size_t n = 0;
  if (path != NULL) n = (size_t)snprintf(text, KF_WHERE_SIZE, "%s: ", path);
  if (n >= KF_WHERE_SIZE) n = KF_WHERE_SIZE - 1;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + n, sizeof text - n, format, arguments);
  va_end(arguments);
  /* Messages quote paths and names from files and end up on terminals and in logs. */
  kf_escape_message(text, err->message, sizeof err->message);
  return status;
}

kf_status kf_fail_memory(kf_err *err) { return kf_fail(err, KF_ERR_MEM, "out of memory"); }

/* strerror is not thread-safe; GNU's strerror_r returns the text. */
const char *kf_reason(int code, char buffer[KF_REASON_SIZE]) {
  return strerror_r(code, buffer, KF_REASON_SIZE);
}

kf_status kf_fail_errno(kf_err *err, const char *path, const char *what, int code) {
  char text[KF_REASON_SIZE];
  kf_status status = code == ENOMEM ? KF_ERR_MEM : KF_ERR_IO;
  return kf_fail(err, status, "%s: %s: %s", path, what, kf_reason(code, text));
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
