/* analyzer.h - what clang's static analyser cannot see from within one source file: which functions
 * never return KF_OK, and what the allocator does. tools/lint.sh puts it in front of the files of
 * the library for clang-tidy, except those that define these functions; no build uses it. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#define kf_fail_with(err, status, ...) (kf_fail_with(err, status, __VA_ARGS__), (status))
#define kf_fail_memory(err)            (kf_fail_memory(err), KF_ERR_MEM)
#define kf_fail_range(map, err)        (kf_fail_range(map, err), KF_ERR_MATH)
#define kf_fail_metric(metric, err)    (kf_fail_metric(metric, err), KF_ERR_ARG)

/* Zeroed, for the analyser does not see who fills it either; so reads of memory that nobody filled
 * are not found here. */
#define kf_alloc(count, size)      calloc((size_t)(count), (size_t)(size))
#define kf_alloc_zero(count, size) calloc((size_t)(count), (size_t)(size))
#define kf_strdup(text)            strdup(text)
#define kf_free(memory)            free(memory)
