/* fuzz.h - what the fuzz targets share.
 *
 * Each fuzz_X.c is one target: it feeds an input to one parser through the public interface, as a
 * file, and reads everything the parser lets through. Whatever the input, the library must come
 * back with a status; sanitizers watch the rest. */
#ifndef KF_FUZZ_H
#define KF_FUZZ_H

#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"

/* The entry point of libFuzzer and of replay_main.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes bytes to a file in a folder of this process. The path stays valid until the next call with
 * the same name. */
const char *fuzz_write(const char *name, const void *data, size_t size);

/* A path in that folder for a file that the library writes; valid as long as fuzz_write's. */
const char *fuzz_path(const char *name);

/* Fails unless two files have the same bytes. */
void fuzz_same_bytes(const char *a, const char *b);

/* Writes the input to a file with the given ending, and calls `use` with its path. Returns 0. */
int fuzz_with_file(const char *ending, const uint8_t *data, size_t size,
                   void (*use)(kf_ctx *ctx, const char *path));

/* The same with a correct checksum in the metadata, which a fuzzer cannot guess. */
int fuzz_with_checked_file(const uint8_t *data, size_t size,
                           void (*use)(kf_ctx *ctx, const char *path));

/* Opens a data set, strictly and leniently, and reads all of its rows and labels. */
void fuzz_read_data(kf_ctx *ctx, const char *path, const kf_data_options *options);

/* The same for several files at once; what can be saved must read back the same. */
void fuzz_keep_data(kf_ctx *ctx, const char *const *files, size_t n);

/* A data file of n rows of one column, for tests of label files. */
const char *fuzz_plain_rows(uint32_t n);

#endif
