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
 * (or shards with an index), preprocessor_config.json, and the tokenizer's files. Of SigLIP, the
 * image tower alone. */
typedef struct kf_encoder kf_encoder;

/* How the towers calculate. Both give the same bits on every instruction set, with any number of
 * threads, and whatever else is encoded in the same call. */
typedef enum kf_precision {
  KF_PRECISION_AUTO = 0, /* bf16 */
  KF_PRECISION_F32 = 1,  /* the reference */
  KF_PRECISION_BF16 = 2 /* products of bf16, sums and the rest in f32: cosine to f32 above 0.9999 */
} kf_precision;

typedef struct kf_encoder_options {
  kf_precision precision;
  kf_switch images; /* load the image tower; default: on */
  kf_switch text;   /* load the text tower and the tokenizer; default: on */
  /* Refuse pictures with more; 0: 178,956,970, as Pillow does. A picture takes 6 bytes a pixel while
   * it is decoded and turned, a JPEG in several scans up to 11, and its file; all threads of a context
   * together take at most 1 GiB, or 64 MiB a thread if that is more: others wait meanwhile, and a
   * picture that takes more is decoded alone. */
  uint64_t max_pixels;
  uint64_t reserved[4];
} kf_encoder_options;

/* Loads those of the requested towers that the model has; KF_ERR_DATA if it has none of them. Every
 * tensor of a tower must be there with the shape that config.json says, and no
 * other tensor in them; otherwise KF_ERR_DATA names it. Progress is in bytes of weights. The
 * encoder uses the instruction set of this context, whichever contexts use it later. */
KF_API kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                                 kf_encoder **out);
KF_API void kf_encoder_free(kf_encoder *encoder);

KF_API uint32_t kf_encoder_dim(const kf_encoder *encoder);        /* of embeddings */
KF_API uint32_t kf_encoder_image_size(const kf_encoder *encoder); /* 224; 0: no image tower */
KF_API uint32_t kf_encoder_context(const kf_encoder *encoder);    /* 77 tokens; 0: no text tower */
KF_API kf_precision kf_encoder_precision(const kf_encoder *encoder);
KF_API uint64_t kf_encoder_bytes(const kf_encoder *encoder); /* of memory that the weights take */
/* Changes with every weight and setting of the loaded towers and with the precision: tells whether
 * two encoders give the same embeddings. */
KF_API uint64_t kf_encoder_checksum(const kf_encoder *encoder);
/* What rows that it makes are marked with (koofu_files.h). Never NULL; owned by the encoder. */
KF_API const kf_origin *kf_encoder_origin(const kf_encoder *encoder);

/* ---------------------------------------------------------------------------------------------
 * 2  Pictures and words in memory
 * ------------------------------------------------------------------------------------------ */

/* Embeddings of pictures in files: out[n][dim], as the projection leaves them (not unit length),
 * and finite. JPEG, PNG and WebP. status: [n], or NULL. A picture that cannot be read, or whose
 * embedding is not finite, gets its status there and a row of zeros, and is logged; with status
 * NULL the first such picture fails the call. */
KF_API kf_status kf_encode_images(kf_ctx *ctx, const kf_encoder *encoder, const char *const *paths,
                                  uint64_t n, float *out, kf_status *status);
/* A picture in memory: the bytes of a JPEG, PNG or WebP or, if it has a size, its pixels as
 * bytes[height][width][3], red, green and blue. */
typedef struct kf_image_bytes {
  const void *bytes;
  uint64_t n;             /* bytes */
  uint32_t width, height; /* 0: the bytes of a file */
  uint64_t reserved[2];
} kf_image_bytes;
/* The same for pictures in memory. */
KF_API kf_status kf_encode_image_bytes(kf_ctx *ctx, const kf_encoder *encoder,
                                       const kf_image_bytes *pictures, uint64_t n, float *out,
                                       kf_status *status);
/* The same for preprocessed pictures: pixels[n][3][size][size]. */
KF_API kf_status kf_encode_pixels(kf_ctx *ctx, const kf_encoder *encoder, const float *pixels,
                                  uint64_t n, float *out);
/* Preprocesses a picture: pixels[3][size][size]. */
KF_API kf_status kf_preprocess_image(kf_ctx *ctx, const kf_encoder *encoder, const char *path,
                                     float *pixels);

/* Embeddings of texts (UTF-8): out[n][dim]. */
KF_API kf_status kf_encode_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                                 uint64_t n, float *out);
/* The tokens of a text, [context], padded; *n: how many come before the padding. */
KF_API kf_status kf_tokenize(kf_ctx *ctx, const kf_encoder *encoder, const char *text,
                             int32_t *tokens, uint32_t *n);

/* ---------------------------------------------------------------------------------------------
 * 3  Many pictures, embedded to a file
 * ------------------------------------------------------------------------------------------ */

/* A list of pictures, at least one, none of them twice. */
typedef struct kf_pictures kf_pictures;

/* paths: pictures, folders, WebDataset archives (.tar) or glob patterns, in the order given.
 *
 * A file in a folder is a picture if its name ends in .jpg, .jpeg, .png or .webp, in any case, or if
 * its first bytes are those of a JPEG, PNG or WebP. Pictures of other formats (GIF, BMP, TIFF, HEIC,
 * AVIF, ...) are left out; how many, and the names of a few, are logged. Other files are ignored.
 *
 * If the folders in a folder hold pictures (at any depth), the names of those folders are the
 * classes, and every picture below one belongs to it; pictures next to them are left out, which is
 * logged. Pictures directly in another folder, and pictures given by themselves, have no label.
 * Pictures of a folder come in byte order of their paths; classes, which several folders may share,
 * are numbered in byte order of their names. Hidden files and folders are ignored, and a link that
 * leads back to where it came from is not followed.
 *
 * An archive holds samples: members whose names differ after the first dot of their last part alone, one
 * after the other. The first that ends in .jpg, .jpeg, .png or .webp is the picture, and ARCHIVE/MEMBER its
 * path; its class is the text of .cls. Samples keep their order. A folder without class folders may hold
 * archives.
 *
 * A pattern stands for the folders, archives and pictures that match it; "s/{000..127}.tar" for files with
 * these numbers. KF_ERR_DATA if a folder or an archive has no picture, or a path is not UTF-8 or appears twice. */
KF_API kf_status kf_pictures_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                  kf_pictures **out);
typedef struct kf_pictures_options {
  const char
      *label_key; /* of the JSON in archives: whose value is the class; NULL: what .cls says */
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
/* Where a picture is, and the id of its row: the path as given, or as in the list. */
KF_API const char *kf_pictures_path(const kf_pictures *pictures, uint64_t i);
KF_API const char *kf_pictures_id(const kf_pictures *pictures, uint64_t i);
KF_API uint32_t kf_pictures_classes(const kf_pictures *pictures); /* 0: no labels */
KF_API const char *kf_pictures_class_name(const kf_pictures *pictures, uint32_t k);
KF_API int32_t kf_pictures_label(const kf_pictures *pictures, uint64_t i); /* KF_LABEL_NONE: none */

typedef struct kf_embed_options {
  kf_dtype dtype;      /* of the file: KF_F32, KF_F16 or KF_BF16 */
  kf_switch normalize; /* scale rows to unit length; default: off */
  int skip_bad;        /* leave out pictures that cannot be read, logging each */
  uint32_t shard;      /* pictures that are finished together; 0: 256 */
  kf_switch resume;    /* use what an earlier run has finished; default: on */
  const char
      *metadata; /* NULL: none; else a file that gets a line of JSON for each row: its number, id,
                           class, and the text and JSON beside it in its archive, or null */
  uint64_t reserved[3];
} kf_embed_options;

typedef struct kf_embed_report {
  uint64_t rows;    /* written */
  uint64_t skipped; /* pictures that could not be read */
  uint64_t resumed; /* pictures in finished shards of an earlier run, including skipped ones */
  uint64_t reused;  /* pictures whose rows are from the file of an earlier run */
  int unchanged;    /* 1: that file is what this run would have written, and was left alone */
  uint64_t reserved[2];
} kf_embed_report;

/* Writes the embeddings of pictures as a data set: `embeddings`, `labels` and class names if there
 * are labels, and the paths as ids. Memory does not grow with the rows, except for the list of
 * pictures and 8 bytes for each, and 24 for each row of a file that is reused; the progress stage is
 * "embed".
 *
 * If the file exists and was written by kf_embed with the same encoder and options, pictures whose
 * bytes have a row in it are not embedded again, whatever their names and places are now; if nothing
 * has changed, the file is left alone. All pictures are read for this ("check").
 *
 * Finished shards stay in the folder PATH.parts until the file is whole. A run that failed or was
 * killed goes on from there, logs again what it had logged for these shards, and the file has the
 * same bytes; a picture that has changed is embedded again. KF_ERR_ARG if the folder belongs to
 * other pictures, another encoder or other options, KF_ERR_IO if another process is working in it.
 * report may be NULL. */
KF_API kf_status kf_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                          const kf_embed_options *options, const char *path,
                          kf_embed_report *report);

/* ---------------------------------------------------------------------------------------------
 * 4  Text prototypes: classes by name, zero-shot, text and rows together (docs/text.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_text_options {
  /* Rows of each class, one class after another; 0: rows belong to the classes of their labels. */
  uint32_t per_class;
  /* With per_class: a text file with the class names, one per line. NULL: those of the data set, or
   * none. */
  const char *classes;
  const char *const *names; /* the same from memory, [n_names]; NULL: `classes` */
  size_t n_names;
  kf_switch unit_rows; /* scale rows to unit length before averaging; default: on */
  kf_switch unit_mean; /* scale means to unit length; default: on */
  uint64_t reserved[4];
} kf_text_options;

/* Text prototypes: the rows of a data set (embedded prompts), averaged by class. A class without
 * rows is KF_ERR_DATA. */
KF_API kf_status kf_text_new(kf_ctx *ctx, const kf_data *data, const kf_text_options *options,
                             kf_text **out);
/* Writes them as a native data set with one row per class, which kf_data_open and kf_text_new read
 * again. */
KF_API kf_status kf_text_save(kf_ctx *ctx, const kf_text *text, const char *path);
KF_API void kf_text_free(kf_text *text);
KF_API uint32_t kf_text_classes(const kf_text *text);
KF_API uint32_t kf_text_dim(const kf_text *text);
KF_API const char *kf_text_class_name(const kf_text *text, uint32_t k); /* NULL: no names */
KF_API const float *kf_text_rows(const kf_text *text);                  /* [classes][dim] */
/* A checksum of rows and class names, which a model made with this text has as `text_from`. */
KF_API uint64_t kf_text_checksum(const kf_text *text);
/* The mean of the rows of a data set, each scaled to unit length, into mean [dim]: of embedded
 * texts, for kf_search_options.text_mean. Labels are ignored, and so are bad rows under skip_bad;
 * KF_ERR_DATA if no row is left. */
KF_API kf_status kf_text_mean(kf_ctx *ctx, const kf_data *data, double *mean);

/* A zero-shot model: the map of `model`, with text prototypes in place of class means. Its classes
 * are those of the text, and everything that takes a model takes it. In the original space (`raw`)
 * its class means are the text as given under KF_CENTRE_NONE alone. Classes that only one of the
 * two has are logged. KF_ERR_DATA if they have none in common, or if the model was fitted without
 * normalising: text says nothing about lengths. */
KF_API kf_status kf_model_new_zero_shot(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_centre centre, kf_model **out);

/* A copy of the model with text added. A class has the score
 *
 *     cosine of the row with the text + alpha * cosine of the mapped row with the prototype
 *
 * Classes are matched by name if both have names, by number if neither has; the result has the
 * classes of the model, then those of the text that the model lacks. A class with text but no rows,
 * or rows but no text, takes part: what it lacks is predicted from what it has by a linear map
 * between the two, fitted to the classes that have both (ridge regression; its strength is chosen
 * by leaving out one class at a time). KF_ERR_DATA if no class has both; KF_ERR_ARG for a model
 * fitted without normalising, or one that has text already. alpha: 0 to 1,000,000. */
KF_API kf_status kf_model_new_fused(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                    double alpha, kf_model **out);
/* A copy of a model with text, with more of it: for classes it has (replacing their text) or for
 * new ones, which then take part by name alone. */
KF_API kf_status kf_model_new_with_text(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_model **out);
/* Whether a model has text (1 or 0), and its alpha. */
KF_API int kf_model_fused(const kf_model *model);
KF_API double kf_model_alpha(const kf_model *model);
/* The text of the classes of a model that have their own; KF_ERR_ARG if there is none. Without
 * names classes go by number, and it is KF_ERR_DATA if classes without text come before them. */
KF_API kf_status kf_text_new_of_model(kf_ctx *ctx, const kf_model *model, kf_text **out);
/* Whether class k has text of its own (1 or 0). */
KF_API int kf_model_class_has_text(const kf_model *model, uint32_t k);

/* ---------------------------------------------------------------------------------------------
 * 5  Prompts: class names to text prototypes (docs/text.md)
 * ------------------------------------------------------------------------------------------ */

/* Texts for the text tower, each with the class it belongs to. */
typedef struct kf_prompts kf_prompts;

/* Which classes may be alike. */
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
  /* The same from memory, [n_names], each one whole name; NULL: `classes`. */
  const char *const *names;
  size_t n_names;
  /* `names` are those of folders: underscores become spaces, and a number in front of a word
   * ("n01440764_tench", "017.Cardinal") is not spoken. */
  int folders;
  /* Text file with lines 'CLASS<tab>NAME, …': what to call each class. NULL: its label. */
  const char *spoken;
  /* Text file with one template per line, in which {} is the name; or "builtin1" (the paper's
   * single prompt), "builtin7" or "builtin80" (those of OpenAI's notebook for ImageNet). NULL:
   * "builtin7". */
  const char *templates;
  int all_names; /* prompts of every name of a class, not just the first */
  kf_repeats repeats;
  uint64_t reserved[4];
} kf_prompts_options;

/* Every name in every template, class by class. */
KF_API kf_status kf_prompts_new(kf_ctx *ctx, const kf_prompts_options *options, kf_prompts **out);
/* The lines of a text file as they are, without classes. */
KF_API kf_status kf_prompts_read(kf_ctx *ctx, const char *path, kf_prompts **out);
KF_API void kf_prompts_free(kf_prompts *prompts);
KF_API uint64_t kf_prompts_count(const kf_prompts *prompts);
KF_API const char *kf_prompts_text(const kf_prompts *prompts, uint64_t i);
KF_API int32_t kf_prompts_class(const kf_prompts *prompts, uint64_t i); /* KF_LABEL_NONE: none */
KF_API uint32_t kf_prompts_classes(const kf_prompts *prompts);          /* 0: no classes */
KF_API const char *kf_prompts_class_name(const kf_prompts *prompts, uint32_t k);

/* Encodes the prompts and averages them by class, as kf_text_new does. All embeddings are held in
 * memory. */
KF_API kf_status kf_text_new_from_prompts(kf_ctx *ctx, const kf_encoder *encoder,
                                          const kf_prompts *prompts, const kf_text_options *options,
                                          kf_text **out);
/* The mean of embedded texts, mean [dim], for kf_search_options.text_mean: that of a hundred
 * everyday things, "a photo of a dog" and so on. Texts about anything else lie around nearly the
 * same place. */
KF_API kf_status kf_encoder_text_mean(kf_ctx *ctx, const kf_encoder *encoder, double *mean);
/* Writes a data set with one row for each prompt, labelled with its class. */
KF_API kf_status kf_prompts_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_prompts *prompts,
                                  kf_dtype dtype, const char *path);

/* ---------------------------------------------------------------------------------------------
 * 6  Reader: rows of data, pictures or texts, block by block
 * ------------------------------------------------------------------------------------------ */

/* Pictures are read and embedded this many at a time: enough for all threads, and about a second's
 * work. */
#define KF_PICTURE_BLOCK 256u

/* Reads rows in order, without the bad ones. */
typedef struct kf_reader kf_reader;

typedef struct kf_reader_options {
  /* Rows at a time, at most; 0: about 16 MiB. At most KF_PICTURE_BLOCK pictures for each rank. */
  uint64_t block;
  int skip_bad; /* leave out pictures that cannot be read; a data set has its own option */
  uint64_t reserved[4];
} kf_reader_options;

/* Rows in hand, valid until the next call on the reader. */
typedef struct kf_reader_block {
  uint64_t first, taken;   /* rows first … first+taken-1 were read; taken 0: the end */
  uint64_t n;              /* good ones among them */
  const float *rows;       /* [n][dim] */
  const uint64_t *numbers; /* [n] number of each row in the data set, or of its picture */
  const int32_t *labels;   /* [n] of a data set that has labels; otherwise NULL */
  uint64_t reserved[3];
} kf_reader_block;

/* The data set, or encoder and pictures or texts, must outlive the reader. */
KF_API kf_status kf_reader_open_data(kf_ctx *ctx, const kf_data *data,
                                     const kf_reader_options *options, kf_reader **out);
KF_API kf_status kf_reader_open_pictures(kf_ctx *ctx, const kf_encoder *encoder,
                                         const kf_pictures *pictures,
                                         const kf_reader_options *options, kf_reader **out);
/* Texts (UTF-8) [n], at least one; their ids are the texts. */
KF_API kf_status kf_reader_open_texts(kf_ctx *ctx, const kf_encoder *encoder,
                                      const char *const *texts, uint64_t n,
                                      const kf_reader_options *options, kf_reader **out);
KF_API void kf_reader_free(kf_reader *reader);
KF_API uint64_t kf_reader_rows(const kf_reader *reader); /* all, bad ones included */
KF_API uint32_t kf_reader_dim(const kf_reader *reader);
KF_API uint64_t kf_reader_bad(const kf_reader *reader); /* left out so far */
/* The id of a picture, or the text, by its number; NULL for the rows of a data set. */
KF_API const char *kf_reader_id(const kf_reader *reader, uint64_t number);
/* The next block. A bad row or picture that is not skipped is KF_ERR_DATA naming it; so is a
 * picture whose embedding is zero. */
KF_API kf_status kf_reader_next(kf_ctx *ctx, kf_reader *reader, kf_reader_block *out);

/* ---------------------------------------------------------------------------------------------
 * 7  Experimental: quickstart, thumbnails
 * ------------------------------------------------------------------------------------------ */
#ifdef KF_EXPERIMENTAL

typedef struct kf_quickstart_options {
  const char *name;       /* what the pictures are called, on the page and in errors */
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
  uint64_t prompts;              /* that class names were embedded in; 0: no text */
  double lambda, alpha;
  /* Leave-one-out, with all dimensions: hits among n rows. n_single rows are alone in their class
   * and cannot be left out. */
  uint64_t n, n_single;
  uint64_t raw_top1;              /* nearest class mean, embeddings as they are; among raw_n */
  uint64_t top1;                  /* nearest class mean, Koo-Fu */
  uint64_t text_top1, fused_top1; /* with text: class names alone, and both together */
  /* Cross-validation: hits among dim_n rows with `fewer` dimensions and with all, which the model
   * has. Without text only. */
  uint32_t folds;
  uint64_t dim_n, dim_top1, all_top1;
  uint32_t fewer; /* the fewest that are shown to lose at most half a point (kf_dim_choice_new) */
  int many_near;  /* as in kf_fit_report */
  uint64_t n_compared, n_near;
  int text_reused; /* 1: the class names were embedded by an earlier run */
  uint64_t raw_n;  /* n, or a few more if there are thousands of classes */
  uint64_t reserved[3];
} kf_quickstart_result;

/* From pictures in class folders (kf_pictures_open) to a classifier. Writes into a folder, which is
 * made if it does not exist:
 *
 *     about.txt               what this folder is
 *     embeddings.safetensors  kf_embed, resumed if an earlier run was interrupted
 *     text.safetensors        text prototypes, if class names take part
 *     model.safetensors       kf_fit with everything chosen
 *     report.html             kf_report_write
 *
 * Embeddings and text of an earlier run into the same folder are reused where they are the same
 * (options->embed.resume). Class names take part if the encoder has a text tower and most of them are
 * words, not numbers. KF_ERR_DATA if fewer than two classes have pictures, or no class has two;
 * KF_ERR_ARG if the folder is among the pictures, or holds one of these files without an about.txt of
 * ours: what others made is not replaced. out may be NULL. */
KF_API kf_status kf_quickstart(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                               const kf_quickstart_options *options, const char *folder,
                               kf_quickstart_result *out);
/* Fails as kf_quickstart does if it can be known without an encoder: pictures, templates, folder. */
KF_API kf_status kf_quickstart_check(kf_ctx *ctx, const kf_pictures *pictures,
                                     const kf_quickstart_options *options, const char *folder);
/* Whether a path, which need not exist, is one of the folders given to kf_pictures_open or inside one
 * (1 or 0). */
KF_API int kf_pictures_inside(const kf_pictures *pictures, const char *path);

/* A small copy of a picture, for a page: the right way up, and its longer side has at most `side` pixels.
 * JPEG or, by builds without it, PNG. max_pixels as in kf_encoder_options. */
KF_API kf_status kf_thumbnail_new(kf_ctx *ctx, const kf_image_bytes *picture, uint32_t side,
                                  uint64_t max_pixels, kf_bytes **out);

#endif

#ifdef __cplusplus
}
#endif

#endif
