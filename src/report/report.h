/* report.h - one HTML page about a data set and its model, made of finished results. */
#ifndef KF_REPORT_H
#define KF_REPORT_H

#include "choose/choose.h"

/* A row with a wrong answer, and its picture as a data URI, if there is one. */
typedef struct kf_worst_row {
  const kf_mistake *mistake;
  char *id;      /* NULL: rows have none */
  char *picture; /* NULL: there is none */
  uint32_t width, height;
} kf_worst_row;

/* What the page shows. A section whose input is NULL is left out. */
typedef struct kf_page {
  const char *title;              /* NULL: "Koo-Fu report" */
  const char *train, *test;       /* names of the data, such as file names */
  uint64_t train_rows;            /* memory is given for this many rows in f32; 0: a million */
  uint64_t n_judged, n_to_judge;  /* rows judged in sweeps, and all; fewer: a sample */
  double sample_error;            /* with 95 % confidence, if it is a sample */
  const kf_model *model;          /* spectra, map of classes, class names */
  const char *const *names;       /* [classes] what to call them; NULL: by label */
  const kf_eval_result *eval;     /* of the model, in the raw and in the Koo-Fu space */
  const kf_eval_result *text;     /* of a model with text: KF_PART_TEXT */
  const kf_eval_result *fused;    /* the same: KF_PART_FUSED */
  const kf_fuse_choice *fuse;     /* accuracy over alpha */
  const kf_lambda_choice *lambda; /* accuracy over lambda */
  const kf_dim_choice *dim;       /* accuracy over dimensions */
  const kf_k_choice *k;           /* accuracy over neighbours */
  const kf_sweep *sweep;          /* accuracy over all three, and of text */
  const kf_analysis *analysis;    /* classes, confusions, margins; of the model's classes */
  bool left_out;                  /* the analysis is of training rows left out, not of test rows */
  const kf_shots *shots;          /* accuracy over the number of rows per class */
  const kf_worst_row *worst;      /* [n_worst] */
  size_t n_worst;
} kf_page;

/* Writes one self-contained HTML page, without network access or scripts. The same content gives
 * the same bytes. */
kf_status kf_page_save(kf_ctx *ctx, const kf_page *page, const char *path);

/* A small picture on a page. */
typedef struct kf_picture {
  uint32_t width, height;
  const char *uri; /* a data URI made by koofu, written without escapes; NULL: no picture */
} kf_picture;

/* Answers of a search (search_page.c). */
typedef struct kf_answers {
  const char *title; /* NULL: "Koo-Fu search" */
  const char *name;  /* of the gallery; NULL: not shown */
  const char *note;  /* a sentence; NULL: none */
  const kf_gallery *gallery;
  uint64_t n, all;            /* queries on the page, and in all */
  const char *const *queries; /* [n] words or paths; NULL: numbers */
  uint32_t k;
  const int64_t *rows;        /* [n][k] */
  const double *scores;       /* [n][k] */
  const kf_picture *pictures; /* [n][k + 1] of each query, then of its rows */
} kf_answers;

/* Writes them as a page, like kf_page_save; *bytes: its size. */
kf_status kf_answers_save(kf_ctx *ctx, const kf_answers *answers, const char *path,
                          uint64_t *bytes);

#endif
