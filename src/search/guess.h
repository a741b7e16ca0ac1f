/* guess.h - floors guessed beforehand. Stays in this room.
 *
 * A floor that rises from row to row lets many more rows through than the last one would: about k for
 * each time that the rows seen so far have doubled. What the last floor of a query will be can be
 * guessed from its look at the first rows, by a straight line through those of some queries that were
 * searched to the end. The line lies well below them. A guess decides no answer: a query in which
 * fewer than k rows turn out to be above its guess is searched again without one. */
#ifndef KF_SEARCH_GUESS_H
#define KF_SEARCH_GUESS_H

#include <stdint.h>

#define KF_GUESS_SAMPLES 96u /* queries that the lines are drawn through */
#define KF_GUESS_LOOKS   12u /* at a query, after each of which its floor is guessed */

/* Of one query. */
typedef struct kf_guess_sample {
  double predictor[KF_GUESS_LOOKS]; /* the mean of the best rows so far; not finite: none */
  double key;                  /* of its k-th nearest row, a lower bound */
} kf_guess_sample;

/* key = base + slope * predictor */
typedef struct kf_guess_line {
  double base, slope;
} kf_guess_line;

typedef struct kf_guesser {
  kf_guess_line line[KF_GUESS_LOOKS];
} kf_guesser;

/* Draws the lines; those with too few samples guess nothing. */
kf_guesser kf_guesser_of(const kf_guess_sample *samples, uint32_t n);
/* The floor of a query; minus infinity: there is no telling. */
double kf_guess(const kf_guesser *guesser, uint32_t look, double predictor);

#endif
