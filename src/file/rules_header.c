/* rules_header.c - checks of metadata, and of which tensors are present. The code that needs a key
 * reports it if it is absent. */
#include "file/rules.h"

#include <math.h>
#include <string.h>

static const char *value_of(const kf_rule *rule, const kf_contents *c) {
  return kf_st_meta(c->st, rule->subject);
}

static kf_status fail(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  return kf_fail_file(err, c->path, "metadata '%s' is '%.40s'; it must be: %s", rule->subject,
                      value_of(rule, c), rule->says);
}

kf_status kf_rule_whole(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  int64_t value;
  if (value_of(rule, c) == NULL) return KF_OK;
  KF_TRY(kf_st_meta_i64(c->st, rule->subject, &value, err));
  bool inside = value >= (int64_t)rule->low && value <= (int64_t)rule->high;
  return inside ? KF_OK : fail(rule, c, err);
}

kf_status kf_rule_number(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  double value;
  if (value_of(rule, c) == NULL) return KF_OK;
  KF_TRY(kf_st_meta_f64(c->st, rule->subject, &value, err));
  return value >= rule->low && value <= rule->high ? KF_OK : fail(rule, c, err);
}

kf_status kf_rule_positive(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  KF_TRY(kf_rule_number(rule, c, err));
  bool there = value_of(rule, c) != NULL;
  return !there || kf_meta_number(c, rule->subject) > 0 ? KF_OK : fail(rule, c, err);
}

kf_status kf_rule_word(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const char *value = value_of(rule, c), *word = rule->other;
  if (value == NULL) return KF_OK;
  size_t n = strlen(value);
  for (; word != NULL; word = strchr(word, ',')) {
    word += *word == ',';
    if (strncmp(word, value, n) == 0 && n > 0 && (word[n] == ',' || word[n] == '\0')) return KF_OK;
  }
  return fail(rule, c, err);
}

/* A tensor or a key of the metadata. */
static bool there(const kf_contents *c, const char *name) {
  return kf_st_find(c->st, name) != NULL || kf_st_meta(c->st, name) != NULL;
}

kf_status kf_rule_together(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  bool subject = there(c, rule->subject), other = there(c, rule->other);
  if (subject == other) return KF_OK;
  return kf_fail_file(err, c->path, "there is '%s' without '%s'",
                      subject ? rule->subject : rule->other, subject ? rule->other : rule->subject);
}

kf_status kf_rule_only_if(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const char *value = strchr(rule->other, '=') + 1;
  char key[32];
  snprintf(key, sizeof key, "%.*s", (int)(value - 1 - rule->other), rule->other);
  if (!there(c, rule->subject) || kf_meta_is(c, key, value)) return KF_OK;
  return kf_fail_file(err, c->path, "there is '%s', but metadata '%s' is not '%s'", rule->subject,
                      key, value);
}

kf_status kf_rule_exponent(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  KF_TRY(kf_rule_whole(rule, c, err));
  if (value_of(rule, c) == NULL || !kf_meta_is(c, "normalized", "1")) return KF_OK;
  int64_t exponent;
  KF_TRY(kf_st_meta_i64(c->st, rule->subject, &exponent, err));
  return exponent == KF_FIXED_BITS ? KF_OK : fail(rule, c, err);
}

kf_status kf_rule_reject(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  double value, most = (1 + kf_meta_number(c, "alpha")) * 1.001;
  if (value_of(rule, c) == NULL) return KF_OK;
  KF_TRY(kf_st_meta_f64(c->st, rule->subject, &value, err));
  double least = -most - 28 * kf_meta_number(c, "prior"); /* a class has up to 2^40 rows */
  bool cosine = kf_meta_is(c, "normalized", "1");
  bool sound = cosine ? value <= most && value >= least : value >= 0;
  return sound ? KF_OK : fail(rule, c, err);
}
