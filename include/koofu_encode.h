/* koofu_encode.h - pictures and words to embeddings, and class names as text.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of the manual; koofu.h has the rules.
 *
 *     1  Encoder: a CLIP or SigLIP model
 *     2  Pictures and words in memory
 *     3  Many pictures, embedded to a file
 *     4  Text prototypes: classes by name, zero-shot, text and rows together
 *     5  Prompts: class names to text prototypes
 *     6  Reader: rows of data, pictures or texts, block by block
 *     7  Experimental: quickstart, thumbnails */
#ifndef KOOFU_ENCODE_H
#define KOOFU_ENCODE_H

#include "koofu_files.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * 1  Encoder: a CLIP or SigLIP model (docs/encoder.md)
 * ------------------------------------------------------------------------------------------ */

/* A CLIP or SigLIP model as Hugging Face publishes it: a folder with config.json, model.safetensors
 * (or shards with an index), preprocessor_config.json, and the tokenizer's files. For SigLIP only
 * the image tower is supported. */
typedef struct kf_encoder kf_encoder;

/* Arithmetic of the towers. Both give the same bits on every processor, with any number of
 * threads, and whatever else is encoded in the same call. */
typedef enum kf_precision {
  KF_PRECISION_AUTO = 0, /* bf16 */
  KF_PRECISION_F32 = 1,  /* the reference */
  KF_PRECISION_BF16 = 2  /* products in bf16, the rest in f32: cosine with f32 above 0.9999 */
} kf_precision;

typedef struct kf_encoder_options {
  kf_precision precision;
  kf_switch images; /* load the image tower; default: on */
  kf_switch text;   /* load the text tower and the tokenizer; default: on */
  /* Refuse pictures with more pixels; 0: 178,956,970, Pillow's limit. Decoding takes 6 bytes per
   * pixel (a progressive JPEG up to 11) and the size of the file. All threads of a context
   * together take at most 1 GiB, or 64 MiB per thread if that is more; further pictures wait, and
   * one that needs more is decoded alone. */
  uint64_t max_pixels;
  uint64_t reserved[4];
} kf_encoder_options;

/* Loads those of the requested towers that the model has; KF_ERR_DATA if it has none of them. A
 * tower must have exactly the tensors and shapes that config.json implies; otherwise KF_ERR_DATA
 * names the tensor. Progress is in bytes of weights. Several threads may use an encoder, each with
 * its own context. */
KF_API kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                                 kf_encoder **out);
KF_API void kf_encoder_free(kf_encoder *encoder);

KF_API uint32_t kf_encoder_dim(const kf_encoder *encoder);        /* of embeddings */
KF_API uint32_t kf_encoder_image_size(const kf_encoder *encoder); /* pixels; 0: no image tower */
KF_API uint32_t kf_encoder_context(const kf_encoder *encoder);    /* tokens; 0: no text tower */
KF_API kf_precision kf_encoder_precision(const kf_encoder *encoder);
KF_API uint64_t kf_encoder_bytes(const kf_encoder *encoder); /* memory of the weights */
/* A checksum of all weights and settings of the loaded towers and of the precision: encoders with
 * the same checksum give the same embeddings. */
KF_API uint64_t kf_encoder_checksum(const kf_encoder *encoder);
/* The origin of its embeddings (koofu_files.h). Never NULL; owned by the encoder. */
KF_API const kf_origin *kf_encoder_origin(const kf_encoder *encoder);

/* What is in a model folder, without loading it: from its settings, the headers of its weights and
 * its tokenizer, which a model with a text tower must have. */
typedef struct kf_tower_info {
  uint32_t layers, width, heads; /* 0: no such tower */
} kf_tower_info;

typedef struct kf_encoder_info {
  const char *family; /* "CLIP" or "SigLIP"; static, as is dtype */
  const char *dtype;  /* of the weights, as the file spells it: "F32" */
  uint64_t parameters, bytes;
  uint32_t dim; /* of embeddings */
  kf_tower_info image, text;
  uint32_t image_size, patch_size; /* pixels */
  uint32_t context, vocabulary;    /* tokens */
  uint64_t reserved[4];
} kf_encoder_info;

KF_API kf_status kf_encoder_describe(kf_ctx *ctx, const char *folder, kf_encoder_info *out);

/* ---------------------------------------------------------------------------------------------
 * 2  Pictures and words in memory
 * ------------------------------------------------------------------------------------------ */

/* Embeddings of picture files (JPEG, PNG, WebP): out[n][dim], finite, as the projection returns
 * them (not unit length). status: [n], or NULL. A picture that cannot be read, or whose embedding
 * is not finite, gets its status there and a row of zeros, and is logged; with status NULL the
 * first such picture fails the call. */
KF_API kf_status kf_encode_images(kf_ctx *ctx, const kf_encoder *encoder, const char *const *paths,
                                  uint64_t n, float *out, kf_status *status);
/* A picture in memory: the bytes of a JPEG, PNG or WebP file or, if width and height are given,
 * its RGB pixels as bytes[height][width][3]. */
typedef struct kf_image_bytes {
  const void *bytes;
  uint64_t n;             /* bytes */
  uint32_t width, height; /* 0: bytes of a file */
  uint64_t reserved[2];
} kf_image_bytes;
/* The same for pictures in memory. */
KF_API kf_status kf_encode_image_bytes(kf_ctx *ctx, const kf_encoder *encoder,
                                       const kf_image_bytes *pictures, uint64_t n, float *out,
                                       kf_status *status);
/* The same for preprocessed pictures, pixels[n][3][size][size]. */
KF_API kf_status kf_encode_pixels(kf_ctx *ctx, const kf_encoder *encoder, const float *pixels,
                                  uint64_t n, float *out);
/* Preprocesses a picture into pixels[3][size][size]. */
KF_API kf_status kf_preprocess_image(kf_ctx *ctx, const kf_encoder *encoder, const char *path,
                                     float *pixels);

/* Embeddings of texts (UTF-8): out[n][dim]. */
KF_API kf_status kf_encode_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                                 uint64_t n, float *out);
/* The tokens of a text, [context], padded; *n: how many precede the padding. */
KF_API kf_status kf_tokenize(kf_ctx *ctx, const kf_encoder *encoder, const char *text,
                             int32_t *tokens, uint32_t *n);

/* ---------------------------------------------------------------------------------------------
 * 3  Many pictures, embedded to a file
 * ------------------------------------------------------------------------------------------ */

/* A list of pictures: at least one, and none twice. */
typedef struct kf_pictures kf_pictures;

/* paths: pictures, folders, WebDataset archives (.tar) or glob patterns, in the order given.
 *
 * A file in a folder is a picture if its name ends in .jpg, .jpeg, .png or .webp, in upper or
 * lower case, or if its magic bytes are those of a JPEG, PNG or WebP. Pictures of other formats
 * (GIF, BMP, TIFF, HEIC, AVIF, ...) are left out; their number and a few names are logged. Other
 * files are ignored.
 *
 * If the subfolders of a folder contain pictures (at any depth), the names of these subfolders are
 * the classes, and every picture below one belongs to its class; pictures next to the subfolders
 * are left out, which is logged. Pictures in a folder without such subfolders, and pictures given
 * one by one, have no label. Pictures of a folder are in byte order of their paths; classes, which
 * several folders may share, are numbered in byte order of their names. Hidden files and folders
 * are ignored, and links that form a cycle are not followed.
 *
 * An archive holds samples: consecutive members whose paths are the same up to the first dot of
 * the file name. The first member that ends in .jpg, .jpeg, .png or .webp is the picture, with the
 * path ARCHIVE/MEMBER; its class is the text of .cls. Samples keep their order. A folder without
 * class folders may contain archives.
 *
 * A pattern stands for the folders, archives and pictures that match it, "s/{000..127}.tar" for
 * files with these numbers. KF_ERR_DATA if a folder or an archive has no picture, or a path is not
 * UTF-8 or appears twice. */
KF_API kf_status kf_pictures_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                  kf_pictures **out);
typedef struct kf_pictures_options {
  const char *label_key; /* key of the class in the JSON of archives; NULL: the class is in .cls */
  /* A .csv or .tsv with the name and the class of each picture; folders then are not classes. A
   * name agrees with a path from the end, with or without the extension: of their folders, the
   * shorter one is the end of the other. Pictures without a line are left out, which is logged.
   * KF_ERR_DATA if a line names no picture, several, or one that another line has named. NULL: no
   * such file. */
  const char *labels;
  /* Its columns: a name in the first line, or a number from 1. NULL: a usual name, such as
   * "filename" and "label" or, of two columns, the other one. */
  const char *id_column, *label_column;
  int skip_bad; /* leave out lines that name no picture, and log how many */
  uint64_t reserved[3];
} kf_pictures_options;
KF_API kf_status kf_pictures_open_with(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                       const kf_pictures_options *options, kf_pictures **out);
/* A text file with one picture per line: PATH, or PATH<TAB>CLASS. Relative paths start at the
 * folder of the list, or at the current one if it is in /dev/fd/. Either every line has a class or
 * none has. */
KF_API kf_status kf_pictures_open_list(kf_ctx *ctx, const char *list, kf_pictures **out);
KF_API void kf_pictures_free(kf_pictures *pictures);
KF_API uint64_t kf_pictures_count(const kf_pictures *pictures);
/* Where a picture is, and the id of its row: the path as it was given, or as it is in the list. */
KF_API const char *kf_pictures_path(const kf_pictures *pictures, uint64_t i);
KF_API const char *kf_pictures_id(const kf_pictures *pictures, uint64_t i);
KF_API uint32_t kf_pictures_classes(const kf_pictures *pictures); /* 0: no labels */
KF_API const char *kf_pictures_class_name(const kf_pictures *pictures, uint32_t k);
KF_API int32_t kf_pictures_label(const kf_pictures *pictures, uint64_t i); /* KF_LABEL_NONE: none */

typedef struct kf_embed_options {
  kf_dtype dtype;      /* of the file: KF_F32, KF_F16 or KF_BF16 */
  kf_switch normalize; /* scale rows to unit length; default: off */
  int skip_bad;        /* leave out unreadable pictures, logging each */
  uint32_t shard;      /* pictures that are saved together; 0: 256 */
  kf_switch resume;    /* reuse what an earlier run finished; default: on */
  /* A file that gets a line of JSON for each row: number, id, class, and text and JSON of its
   * sample in the archive, or null. NULL: none. */
  const char *metadata;
  uint64_t reserved[3];
} kf_embed_options;

typedef struct kf_embed_report {
  uint64_t rows;    /* written */
  uint64_t skipped; /* pictures that could not be read */
  uint64_t resumed; /* pictures in shards of an earlier run, including skipped ones */
  uint64_t reused;  /* pictures whose rows were in the file of an earlier run */
  int unchanged;    /* 1: that file was already up to date and is unchanged */
  uint64_t reserved[2];
} kf_embed_report;

/* Writes the embeddings of pictures as a data set: `embeddings`, `labels` and class names if there
 * are labels, and the paths as ids. Memory: the list of pictures, 8 bytes per picture, and 24 per
 * row of a file that is reused. The progress stage is "embed".
 *
 * If the file exists and was written by kf_embed with the same encoder and options, pictures with
 * the same bytes are not embedded again, even if they were renamed or moved; if nothing has
 * changed, the file is not written. All pictures are read for this (stage "check").
 *
 * Finished shards stay in the folder PATH.parts until the file is complete. After a failure or a
 * kill the next run resumes from there, repeats the log of these shards, and writes the same
 * bytes; pictures that have changed are embedded again. KF_ERR_ARG if the folder belongs to other
 * pictures, another encoder or other options, KF_ERR_IO if another process is using it. report may
 * be NULL. */
KF_API kf_status kf_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                          const kf_embed_options *options, const char *path,
                          kf_embed_report *report);

/* ---------------------------------------------------------------------------------------------
 * 4  Text prototypes: classes by name, zero-shot, text and rows together (docs/text.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_text_options {
  /* The number of rows of each class, one class after another; 0: classes are those of the
   * labels. */
  uint32_t per_class;
  /* With per_class: a text file with one class name per line. NULL: the names of the data set, or
   * none. */
  const char *classes;
  const char *const *names; /* the same in memory, [n_names]; NULL: `classes` */
  size_t n_names;
  kf_switch unit_rows; /* scale rows to unit length before averaging; default: on */
  kf_switch unit_mean; /* scale means to unit length; default: on */
  uint64_t reserved[4];
} kf_text_options;

/* Text prototypes: the rows of a data set (embedded prompts) averaged by class. A class without
 * rows is KF_ERR_DATA. */
KF_API kf_status kf_text_new(kf_ctx *ctx, const kf_data *data, const kf_text_options *options,
                             kf_text **out);
/* Writes them as a data set with one row per class, which kf_data_open and kf_text_new can read. */
KF_API kf_status kf_text_save(kf_ctx *ctx, const kf_text *text, const char *path);
KF_API void kf_text_free(kf_text *text);
KF_API uint32_t kf_text_classes(const kf_text *text);
KF_API uint32_t kf_text_dim(const kf_text *text);
KF_API const char *kf_text_class_name(const kf_text *text, uint32_t k); /* NULL: no names */
KF_API const float *kf_text_rows(const kf_text *text);                  /* [classes][dim] */
/* A checksum of rows and class names; a model made with this text stores it as `text_from`. */
KF_API uint64_t kf_text_checksum(const kf_text *text);
/* The mean of the rows of a data set (embedded texts), each scaled to unit length, into mean
 * [dim], for kf_search_options.text_mean. Labels are ignored, as are bad rows with skip_bad;
 * KF_ERR_DATA if no row is left. */
KF_API kf_status kf_text_mean(kf_ctx *ctx, const kf_data *data, double *mean);
/* Prepares a gallery for text queries (kf_search_options.text_mean): texts go through a map of
 * their own, which takes an eigendecomposition to make. Later calls return at once. Threads may
 * call it while others search. */
KF_API kf_status kf_gallery_prepare_text(kf_ctx *ctx, const kf_gallery *gallery);

/* A zero-shot model: the map of `model` with text prototypes instead of class means. Its classes
 * are those of the text. It can be used like any model; in the original space (`raw`) its class
 * means are the unchanged text only with KF_CENTRE_NONE. Classes that only one of the two has are
 * logged. KF_ERR_DATA if they have no class in common, or if the model was fitted without
 * normalising, since text has no meaningful length. */
KF_API kf_status kf_model_new_zero_shot(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_centre centre, kf_model **out);

/* A copy of the model with text added. A class has the score
 *
 *     cosine of the row with the text + alpha * cosine of the mapped row with the prototype
 *
 * Classes are matched by name if both have names, by number if neither has; the result has the
 * classes of the model, then those of the text that the model lacks. A class with text but no
 * rows, or rows but no text, takes part: what it lacks is predicted from what it has by ridge
 * regression on the classes that have both, with a strength chosen by leaving out one class at a
 * time. KF_ERR_DATA if no class has both; KF_ERR_ARG for a model fitted without normalising, or
 * one that has text already. alpha: 0 to 1,000,000. */
KF_API kf_status kf_model_new_fused(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                    double alpha, kf_model **out);
/* A copy of a model that has text, with more text: for existing classes (replacing theirs) or for
 * new ones, which then take part by name alone. */
KF_API kf_status kf_model_new_with_text(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_model **out);
/* Whether a model has text (1 or 0), and its alpha. */
KF_API int kf_model_fused(const kf_model *model);
KF_API double kf_model_alpha(const kf_model *model);
/* The text of those classes of a model that have their own; KF_ERR_ARG if none has. Without class
 * names, classes are matched by number, so a class without text before one with text is
 * KF_ERR_DATA. */
KF_API kf_status kf_text_new_of_model(kf_ctx *ctx, const kf_model *model, kf_text **out);
/* Whether class k has its own text (1 or 0). */
KF_API int kf_model_class_has_text(const kf_model *model, uint32_t k);

/* ---------------------------------------------------------------------------------------------
 * 5  Prompts: class names to text prototypes (docs/text.md)
 * ------------------------------------------------------------------------------------------ */

/* Texts for the text tower, each with the class it belongs to. */
typedef struct kf_prompts kf_prompts;

/* Whether classes may share prompts. */
typedef enum kf_repeats {
  KF_REPEATS_NONE = 0,  /* classes whose prompts would be the same are an error */
  KF_REPEATS_NAMES = 1, /* classes may have the same prompts, but not the same label */
  KF_REPEATS_ALL = 2    /* classes may have the same label */
} kf_repeats;

typedef struct kf_prompts_options {
  /* Text file with one class per line: its name, or several separated by commas. A name in
   * quotation marks is taken whole. '#' at the start of a line or after a space begins a
   * comment. */
  const char *classes;
  /* The same in memory, [n_names], each one whole name; NULL: `classes`. */
  const char *const *names;
  size_t n_names;
  /* 1: `names` are folder names: underscores become spaces, and a number in front of a word
   * ("n01440764_tench", "017.Cardinal") is dropped. */
  int folders;
  /* The words to use for each class: lines 'CLASS<tab>NAME, …', or a .csv or .json file as for
   * kf_class_names_load. NULL: its name. */
  const char *spoken;
  /* Text file with one template per line, in which {} is the name; or "builtin1" (the paper's
   * single prompt), "builtin7" or "builtin80" (from OpenAI's notebook for ImageNet). NULL:
   * "builtin7". */
  const char *templates;
  int all_names; /* 1: prompts for every name of a class, not just the first */
  kf_repeats repeats;
  uint64_t reserved[4];
} kf_prompts_options;

/* Every name in every template, class by class. */
KF_API kf_status kf_prompts_new(kf_ctx *ctx, const kf_prompts_options *options, kf_prompts **out);
/* The lines of a text file, unchanged and without classes. */
KF_API kf_status kf_prompts_read(kf_ctx *ctx, const char *path, kf_prompts **out);
KF_API void kf_prompts_free(kf_prompts *prompts);
KF_API uint64_t kf_prompts_count(const kf_prompts *prompts);
KF_API const char *kf_prompts_text(const kf_prompts *prompts, uint64_t i);
KF_API int32_t kf_prompts_class(const kf_prompts *prompts, uint64_t i); /* KF_LABEL_NONE: none */
KF_API uint32_t kf_prompts_classes(const kf_prompts *prompts);          /* 0: no classes */
KF_API const char *kf_prompts_class_name(const kf_prompts *prompts, uint32_t k);

/* Encodes the prompts and averages them by class, as kf_text_new does. Memory: all embeddings. */
KF_API kf_status kf_text_new_from_prompts(kf_ctx *ctx, const kf_encoder *encoder,
                                          const kf_prompts *prompts, const kf_text_options *options,
                                          kf_text **out);
/* The mean of embedded texts, mean [dim], for kf_search_options.text_mean, from a hundred prompts
 * for everyday things, such as "a photo of a dog". The mean of other texts is nearly the same. */
KF_API kf_status kf_encoder_text_mean(kf_ctx *ctx, const kf_encoder *encoder, double *mean);
/* Writes a data set with one row for each prompt, labelled with its class. */
KF_API kf_status kf_prompts_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_prompts *prompts,
                                  kf_dtype dtype, const char *path);

/* ---------------------------------------------------------------------------------------------
 * 6  Reader: rows of data, pictures or texts, block by block
 * ------------------------------------------------------------------------------------------ */

/* The most pictures in a block of a reader. */
#define KF_PICTURE_BLOCK 256u

/* Reads rows in order, without the bad ones. */
typedef struct kf_reader kf_reader;

typedef struct kf_reader_options {
  /* At most this many rows per block; 0: about 16 MiB. For pictures at most KF_PICTURE_BLOCK per
   * rank. */
  uint64_t block;
  int skip_bad; /* leave out unreadable pictures; a data set has its own option */
  uint64_t reserved[4];
} kf_reader_options;

/* A block of rows, valid until the next call on the reader. */
typedef struct kf_reader_block {
  uint64_t first, taken;   /* rows first … first+taken-1 were read; 0: the end */
  uint64_t n;              /* rows in the block: the good ones */
  const float *rows;       /* [n][dim] */
  const uint64_t *numbers; /* [n] number of each row in the data set or list */
  const int32_t *labels;   /* [n] of a data set that has labels; otherwise NULL */
  uint64_t reserved[3];
} kf_reader_block;

/* The data set, or encoder and pictures or texts, must outlive the reader. */
KF_API kf_status kf_reader_open_data(kf_ctx *ctx, const kf_data *data,
                                     const kf_reader_options *options, kf_reader **out);
KF_API kf_status kf_reader_open_pictures(kf_ctx *ctx, const kf_encoder *encoder,
                                         const kf_pictures *pictures,
                                         const kf_reader_options *options, kf_reader **out);
/* The rows of pictures as a data set in memory, with their labels, ids and encoder; the pictures
 * must outlive it. With skip_bad unreadable ones have no row. The progress stage is "embed".
 * Memory: 4 D + 8 bytes per picture. */
KF_API kf_status kf_data_new_from_pictures(kf_ctx *ctx, const kf_encoder *encoder,
                                           const kf_pictures *pictures,
                                           const kf_reader_options *options, kf_data **out);
/* Texts (UTF-8) [n], at least one; their ids are the texts. */
KF_API kf_status kf_reader_open_texts(kf_ctx *ctx, const kf_encoder *encoder,
                                      const char *const *texts, uint64_t n,
                                      const kf_reader_options *options, kf_reader **out);
KF_API void kf_reader_free(kf_reader *reader);
KF_API uint64_t kf_reader_rows(const kf_reader *reader); /* including bad ones */
KF_API uint32_t kf_reader_dim(const kf_reader *reader);
KF_API uint64_t kf_reader_bad(const kf_reader *reader); /* left out so far */
/* The id of a picture, or a text, by its number; NULL for rows of a data set. */
KF_API const char *kf_reader_id(const kf_reader *reader, uint64_t number);
/* The next block. A bad row or picture that is not skipped is KF_ERR_DATA naming it; so is a
 * picture whose embedding is zero. */
KF_API kf_status kf_reader_next(kf_ctx *ctx, kf_reader *reader, kf_reader_block *out);

/* ---------------------------------------------------------------------------------------------
 * 7  Experimental: quickstart, thumbnails
 * ------------------------------------------------------------------------------------------ */
#ifdef KF_EXPERIMENTAL

typedef struct kf_quickstart_options {
  const char *name;       /* name of the pictures, on the page and in errors */
  const char *title;      /* of the page; NULL: "Koo-Fu report" */
  kf_switch text;         /* use class names as text; default: on, if most are words */
  const char *templates;  /* as in kf_prompts_options */
  kf_embed_options embed; /* how to embed the pictures */
  uint64_t reserved[8];
} kf_quickstart_options;

typedef struct kf_quickstart_result {
  kf_embed_report embed;
  uint64_t rows;                 /* in the model */
  uint32_t classes, dim_in, dim; /* of the model */
  uint64_t prompts;              /* that were embedded for the class names; 0: no text */
  double lambda, alpha;
  /* Leave-one-out with all dimensions: hits among n rows. n_single rows are alone in their class
   * and cannot be left out. */
  uint64_t n, n_single;
  uint64_t raw_top1;              /* nearest class mean of the embeddings, among raw_n */
  uint64_t top1;                  /* nearest class mean, Koo-Fu */
  uint64_t text_top1, fused_top1; /* with text: class names alone, and both together */
  /* Cross-validation, without text only: hits among dim_n rows with `fewer` dimensions and with
   * all. The model has all. */
  uint32_t folds;
  uint64_t dim_n, dim_top1, all_top1;
  uint32_t fewer; /* the fewest shown to lose at most half a point (kf_dim_choice_new) */
  int many_near;  /* as in kf_fit_report */
  uint64_t n_compared, n_near;
  int text_reused; /* 1: the class names were embedded by an earlier run */
  uint64_t raw_n;  /* n, or a few more if there are thousands of classes */
  /* The errors of the model on its own pictures, each left out in turn, as on the page; rows are
   * those of embeddings.safetensors. To be freed with kf_analysis_free. */
  struct kf_analysis *errors;
  uint64_t renamed; /* classes with another name than their folder, in names.json */
  uint64_t reserved[1];
} kf_quickstart_result;

/* From pictures in class folders (kf_pictures_open) to a classifier. Writes to a folder (created
 * if missing):
 *
 *     about.txt               what this folder is
 *     embeddings.safetensors  kf_embed, resumed if an earlier run was interrupted
 *     text.safetensors        text prototypes, if class names are used
 *     model.safetensors       kf_fit with everything chosen
 *     report.html             kf_report_write
 *     names.json              what classes are called, if not as their folders: for
 *                             kf_class_names_load
 *
 * Embeddings and text of an earlier run in the same folder are reused if they are unchanged
 * (options->embed.resume). Class names are used if the encoder has a text tower and most of them
 * are words, not numbers. KF_ERR_DATA if fewer than two classes have pictures, or no class has
 * two; KF_ERR_ARG if the folder is among the pictures, or contains one of these files without
 * koofu's about.txt: files from elsewhere are not replaced. out may be NULL. */
KF_API kf_status kf_quickstart(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                               const kf_quickstart_options *options, const char *folder,
                               kf_quickstart_result *out);
/* Checks what kf_quickstart needs apart from the encoder: pictures, templates, folder. Fails with
 * the same errors. */
KF_API kf_status kf_quickstart_check(kf_ctx *ctx, const kf_pictures *pictures,
                                     const kf_quickstart_options *options, const char *folder);
/* Whether a path, which need not exist, is one of the folders given to kf_pictures_open, or inside
 * one (1 or 0). */
KF_API int kf_pictures_inside(const kf_pictures *pictures, const char *path);

/* A thumbnail of a picture: upright, with at most `side` pixels on its longer side. A JPEG or, in
 * builds without JPEG, a PNG. max_pixels as in kf_encoder_options. */
KF_API kf_status kf_thumbnail_new(kf_ctx *ctx, const kf_image_bytes *picture, uint32_t side,
                                  uint64_t max_pixels, kf_bytes **out);

#endif

#ifdef __cplusplus
}
#endif

#endif
