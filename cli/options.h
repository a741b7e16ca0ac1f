/* options.h - the values of options, by group, and the options that several commands share. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "args.h"
#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"

/* --- values ----------------------------------------------------------------------------------- */

typedef struct cli_args {
  cli_list operands;
  const char *output; /* -o */
  int dtype, metric, json;
  struct common_args { /* global_options */
    int help, long_help, quiet, verbose, isa;
    cli_number threads;
    const char *device, *device_plugin; /* the latter from the environment */
  } common;
  struct data_args { /* label_options, row_options, strict_options, only_options */
    cli_list labels;
    const char *classes, *tensor, *label_tensor, *label_column, *id_column, *only;
    int order, skip_bad, allow_unlabelled, allow_unknown, any_encoder, rank_files;
  } data;
  struct stats_args { /* stats_options */
    int no_normalize;
    cli_number exponent;
    const char *checkpoint;
  } stats;
  struct fit_args { /* koofu fit, and choose_options */
    const char *lambda, *between, *groups, *like;
    cli_number dim;
    int centre, method, criterion, priors, one_se;
    cli_number sample, folds;
    cli_real margin, reject;
  } fit;
  struct test_args { /* TEST_ROWS, TEST_LABELS */
    cli_list data, labels;
  } test;
  struct sweep_args { /* koofu sweep */
    const char *lambdas;
    cli_numbers dims;
    cli_list class_sets;
    int format, no_raw, no_prototypes, leave_one_out;
  } sweep;
  struct shots_args { /* SHOTS, SEEDS */
    cli_numbers sizes;
    cli_number seeds;
  } shots;
  struct report_args { /* koofu report */
    const char *model, *title;
    int no_neighbours;
  } report;
  const char *names; /* CLASS_NAMES */
  struct text_args { /* text_options; koofu text-prototypes; koofu add-class */
    const char *path, *fuse;
    int centre, as_is;
    cli_number per_class;
    int no_unit_rows, no_unit_mean;
    int rows; /* the data are text embeddings */
  } text;
  struct prompt_args { /* koofu prompts, koofu embed-text */
    const char *templates, *names, *label_output, *lines;
    int all_names, repeats, rows;
  } prompts;
  struct encoder_args { /* encoder_options, tower_options */
    const char *folder;
    int precision, no_text;
    cli_number max_pixels;
  } encoder;
  struct picture_args { /* picture_options */
    const char *list, *label_key, *metadata;
    cli_number shard;
    int normalize, no_resume;
  } pictures;
  struct use_args { /* koofu classify, eval, compare, transform */
    int raw, part, no_normalize;
    cli_number top;
    int probabilities, no_reject;
  } use;
  struct index_args { /* koofu index */
    const char *model, *ids, *append, *remove;
    int again, replace, compact;
  } index;
  struct search_args { /* koofu search, and -k elsewhere */
    cli_number k;
    cli_numbers ks;
    int itself, rerank_from_disk, text;
    cli_real within, unique;
    const char *text_mean, *html, *pictures, *keep, *only, *only_ids;
    cli_list also;
  } search;
  struct vote_args { /* vote_options */
    const char *gallery;
    int weighted;
    cli_real temperature;
  } votes;
  struct judge_args { /* judge_options, truth_options */
    const char *truth, *truth_classes, *ids, *class_set;
  } judge;
  struct error_args { /* koofu eval */
    int shown;
    const char *per_class, *confusions, *wrong;
    cli_list unknown;
    int no_calibration;
  } errors;
  struct hierarchy_args { /* koofu classes */
    const char *path, *names, *set, *all;
  } hierarchy;
  struct world_args { /* world_options; koofu synth, koofu demo */
    cli_number classes, dim, per_class, test_per_class, split, seed;
    const char *text;
  } world;
  struct export_args { /* koofu export */
    cli_number inline_bytes;
    int single;
    const char *license, *base_model;
  } exported;
  struct serve_args { /* koofu serve */
    const char *gallery, *rows, *images, *journal, *host, *token_file;
    cli_list hosts;
    int demo, check;
    cli_number port, max_body, memory, queue, connections, timeout;
  } serve;
  struct help_args { /* koofu help */
    int man, completion;
  } help;
} cli_args;

/* --- groups of options ------------------------------------------------------------------------ */

extern const cli_group global_options;  /* every command has these */
extern const cli_group label_options;   /* --labels, --classes, --label-column, --label-tensor */
extern const cli_group row_options;     /* --tensor, --order, --skip-bad */
extern const cli_group strict_options;  /* --skip-unlabelled, --skip-unknown */
extern const cli_group only_options;    /* --only */
extern const cli_group stats_options;   /* --no-normalize, --exponent */
extern const cli_group choose_options;  /* --one-se, --sample, --folds, --margin */
extern const cli_group world_options;   /* --classes, --dim, --per-class, --seed */
extern const cli_group vote_options;    /* --gallery, --weighted, --temperature */
extern const cli_group truth_options;   /* of test rows: --truth, --truth-classes, --ids */
extern const cli_group judge_options;   /* --truth, --truth-classes, --ids, --class-set */
extern const cli_group text_options;    /* --text, --text-centre, --text-as-is */
extern const cli_group tower_options;   /* --precision */
extern const cli_group encoder_options; /* --encoder, --precision, --max-pixels */
extern const cli_group served_options;  /* the same for 'koofu serve' */
extern const cli_group picture_labels;  /* of pictures: --labels, --label-column, --id-column */
extern const cli_group picture_options; /* --max-pixels, --skip-bad, --shard, --no-resume */

enum { MAX_THREADS = 1024 };
extern const char *const isa_choices[]; /* in the order of kf_isa */
extern const char *const dtype_choices[];
extern const char *const metric_choices[]; /* of prototypes */
extern const char *const all_metrics[];    /* of galleries */
extern const char *const part_choices[];
extern const char *const method_choices[];
extern const char *const criterion_choices[];
extern const char *const priors_choices[];
extern const char *const centre_choices[];      /* kf_centre, from 1 */
extern const char *const text_centre_choices[]; /* kf_centre, from 1 */

/* --- options that several commands have ------------------------------------------------------- */

/* The beginning of a table entry, for options whose help differs: {OUTPUT("FILE"), .help =
 * "..."}. */
#define OUTPUT(VALUE) TEXT("output", output, VALUE), .letter = 'o'
#define NEIGHBOURS    NUMBER("neighbours", search.k, "K", 1, KF_MAX_NEIGHBOURS), .letter = 'k'
#define NEIGHBOUR_LIST                                                                             \
  NUMBERS("neighbours", search.ks, "K,...", 1, KF_MAX_NEIGHBOURS), .letter = 'k'
#define METRIC(CHOICES)      CHOICE("metric", metric, "NAME", KF_METRIC_COSINE, CHOICES)
#define JSON                 FLAG("json", json)
#define LAMBDA               TEXT("lambda", fit.lambda, "LAMBDA")
#define MODEL_DIM            NUMBER("dim", fit.dim, "L", 1, KF_MAX_DIM)
#define DIMS                 NUMBERS("dims", sweep.dims, "L,...", 1, KF_MAX_DIM)
#define SAMPLE               NUMBER("sample", fit.sample, "N", 1, INT64_MAX)
#define FOLDS                NUMBER("folds", fit.folds, "F", 2, 100)
#define TEXT_INPUT           INPUT("text", text.path, "TEXT")
#define TEXT_CENTRE(CHOICES) CHOICE("text-centre", text.centre, "WHAT", KF_CENTRE_NONE, CHOICES)
#define TEMPLATES            INPUT("templates", prompts.templates, "FILE")

/* Whole table entries. */
#define DATA_OUTPUT                                                                                \
  OUTPUT("OUT.safetensors"), .required = 1,                                                        \
                             .help = "the data set to write; its name ends in .safetensors"
#define SET_OUTPUT                                                                                 \
  OUTPUT("OUT"), .required = 1, .help = "the data set to write, .safetensors or .parquet"
#define STATS_OUTPUT OUTPUT("S.safetensors"), .required = 1, .help = "the statistics file to write"
#define TEXT_OUTPUT  OUTPUT("FILE"), .help = "write to FILE (default: standard output)"
#define DTYPE(MORE)                                                                                \
  CHOICE("dtype", dtype, "TYPE", KF_F32, dtype_choices),                                           \
      .help = "type of the numbers: f32 (default), f16 or bf16" MORE
#define MODEL_METRIC                                                                               \
  METRIC(metric_choices), .help = "cosine or euclidean (default: cosine; euclidean for a model "   \
                                  "fitted without normalising)"
#define PART                                                                                       \
  CHOICE("part", use.part, "NAME", KF_PART_IMAGES, part_choices),                                  \
      .help = "of a model that has text: images, text or fused (default: fused)"
#define SHARES_JSON JSON, .help = "one JSON object, with accuracies as fractions"
#define CENTRE                                                                                     \
  CHOICE("centre", fit.centre, "WHAT", KF_CENTRE_NONE, centre_choices),                            \
      .help = "subtract before mapping: mean, that of the training rows (default), or none "       \
              "(default with --method paper, which it needs)"
#define METHOD                                                                                     \
  CHOICE("method", fit.method, "NAME", KF_METHOD_SHRUNK, method_choices),                          \
      .help = "shrunk (default), or paper: without scaling columns, centring and shrinking means"
#define PRIORS                                                                                     \
  CHOICE("priors", fit.priors, "NAME", KF_PRIORS_EQUAL, priors_choices),                           \
      .help = "how likely classes are: equal, or training, by their numbers of rows (default: "    \
              "equal; training with --no-normalize)"
#define CRITERION                                                                                  \
  CHOICE("criterion", fit.criterion, "NAME", KF_CRITERION_LIKELIHOOD, criterion_choices),          \
      .help = "choose lambda by likelihood (default) or accuracy (default with --method paper)"
#define ROW_GROUPS                                                                                 \
  INPUT("groups", fit.groups, "FILE"),                                                             \
      .help =                                                                                      \
          "the group of each row, such as its video, as for --labels; groups are left out whole"
#define BETWEEN                                                                                    \
  INPUT("between", fit.between, "STATS"),                                                          \
      .help = "take the scatter between classes and the class means from these statistics"
#define LIKE                                                                                       \
  TEXT("like", fit.like, "MODEL"), /* which the new model may replace */                           \
      .help = "keep what was chosen for this earlier model, such as one of fewer rows"
#define ONE_SE                                                                                     \
  FLAG("one-se", fit.one_se),                                                                      \
      .help = "take the largest lambda within one standard error of the best"
#define MARGIN                                                                                     \
  REAL("margin", fit.margin, "POINTS"),                                                            \
      .help = "with --dim auto: points of accuracy that may be lost (default: 0.5)"
#define TEST_ROWS                                                                                  \
  INPUTS("test", test.data, "DATA"),                                                               \
      .help = "test rows; repeat it for several files (default: folds of the training rows)"
#define TEST_LABELS                                                                                \
  INPUTS("test-labels", test.labels, "FILE"), .help = "labels of the test rows, as --labels"
#define SHOTS                                                                                      \
  NUMBERS("shots", shots.sizes, "N,...", 1, INT32_MAX),                                            \
      .help = "with --test: accuracy with only N training rows of each class"
#define SEEDS                                                                                      \
  NUMBER("seeds", shots.seeds, "S", 1, 1000), .help = "with --shots: draw S times (default: 3)"
#define FUSE(MORE)                                                                                 \
  TEXT("fuse", text.fuse, "ALPHA"),                                                                \
      .help = "with --text: the weight of prototypes next to text, a number or auto" MORE          \
              " (default: auto)"
#define TEXT_AS_IS FLAG("text-as-is", text.as_is), .help = "do not scale text to unit length"
#define TITLE      TEXT("title", report.title, "TEXT"), .help = "the title of the page"
#define ANY_ENCODER                                                                                \
  FLAG("any-encoder", data.any_encoder), .help = "allow mixing embeddings from different encoders"
#define SPOKEN_NAMES                                                                               \
  INPUT("names", prompts.names, "FILE"),                                                           \
      .help = "lines 'CLASS<tab>NAME, ...', such as WordNet's, a .csv or a .json, for --classes"
#define CLASS_NAMES                                                                                \
  INPUT("names", names, "FILE"),                                                                   \
      .help = "what to call classes for people: lines 'CLASS<tab>NAME', a .csv, a .json object, "  \
              "or one name per class"
#define ALL_NAMES                                                                                  \
  FLAG("all-names", prompts.all_names),                                                            \
      .help = "make prompts of every name of a class, not just the first"

#endif
