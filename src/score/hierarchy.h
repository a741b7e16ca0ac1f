/* hierarchy.h - a graph of classes; private to this room. */
#ifndef KF_SCORE_HIERARCHY_H
#define KF_SCORE_HIERARCHY_H

#include "score/score.h"

/* Neighbours in one direction: those of class k are list[ends[k - 1]] … list[ends[k] - 1]. */
typedef struct kf_links {
  uint64_t *ends; /* [n] */
  uint32_t *list;
} kf_links;

struct kf_hierarchy {
  kf_name_set classes;
  char **names; /* [n] for display; NULL: none */
  uint64_t n_edges;
  kf_links parents, children;
  kf_arena arena; /* holds the links and each name */
  char path[];
};

#endif
