/* demo.c - the synthetic world of koofu synth as a small gallery with names, so that the page can
 * be tried without a model, pictures or an encoder. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  COLOURS = 3,
  SHAPES = 12,
  CLASSES = COLOURS * SHAPES,
  PER_CLASS = 60,
  DIM = 128,
  ROWS = CLASSES * PER_CLASS
};

/* Never freed, since data sets are views of it. */
static struct demo {
  float rows[ROWS][DIM];
  int32_t labels[ROWS];
  char names[CLASSES][32], ids[ROWS][40];
  const char *name_list[CLASSES], *id_list[ROWS];
  bool made;
} demo;

static void name_all(void) {
  static const char *const colours[COLOURS] = {"bright", "pale", "dark"};
  static const char *const shapes[SHAPES] = {"disc",    "triangle", "square",  "star",
                                             "diamond", "ring",     "hexagon", "cross",
                                             "moon",    "leaf",     "wave",    "chevron"};
  for (int k = 0; k < CLASSES; k++) {
    snprintf(demo.names[k], sizeof demo.names[k], "%s %s", colours[k / SHAPES], shapes[k % SHAPES]);
    demo.name_list[k] = demo.names[k];
  }
  for (int i = 0; i < ROWS; i++) {
    int k = demo.labels[i];
    snprintf(demo.ids[i], sizeof demo.ids[i], "%s-%s-%04d", colours[k / SHAPES], shapes[k % SHAPES],
             i);
    demo.id_list[i] = demo.ids[i];
  }
}

static kf_status make_rows(kf_ctx *ctx) {
  kf_synth_options world = {.classes = CLASSES, .dim = DIM, .per_class = PER_CLASS};
  kf_data *data = NULL;
  if (demo.made) return KF_OK;
  kf_status status = kf_synth_open(ctx, &world, &data);
  if (status == KF_OK) status = kf_data_get(ctx, data, 0, ROWS, demo.rows[0], demo.labels);
  kf_data_free(data);
  if (status == KF_OK) name_all();
  demo.made = status == KF_OK;
  return status;
}

kf_status sv_demo_rows(kf_ctx *ctx, kf_data **out) {
  kf_array array = {.rows = demo.rows, .n = ROWS, .dtype = KF_F32};
  kf_array_options options = {
      .labels = demo.labels, .names = demo.name_list, .n_classes = CLASSES, .ids = demo.id_list};
  kf_status status = make_rows(ctx);
  return status == KF_OK ? kf_data_open_arrays(ctx, &array, 1, DIM, &options, out) : status;
}

kf_status sv_demo_model(kf_ctx *ctx, kf_model **out) {
  kf_fit_options options = {.reject = 0.95};
  kf_data *rows = NULL;
  kf_status status = sv_demo_rows(ctx, &rows);
  if (status == KF_OK) status = kf_fit(ctx, rows, &options, out, NULL);
  kf_data_free(rows);
  return status;
}
