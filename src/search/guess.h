/* guess.h - guessed floors. Stays in this room.
 *
 * While a floor rises from row to row, it lets many more rows through than its final value would:
 * about k each time the number of rows seen doubles. The final floor of a query can be predicted
 * from its best rows so far, by a straight line fitted to a sample of queries that were searched to
 * the end, and lowered well below them. A guess decides no answer: if fewer than k rows turn out to
 * be above it, the query is searched again without one. */
#ifndef KF_SEARCH_GUESS_H
#define KF_SEARCH_GUESS_H

#include <stdint.h>

#define KF_GUESS_SAMPLES 96u /* queries that the lines are fitted to */
#define KF_GUESS_LOOKS   12u /* guesses for a query, at most, each from more rows */

/* One query that was searched to the end. */
typedef struct kf_guess_sample {
  double predictor[KF_GUESS_LOOKS]; /* the mean of the best rows so far; not finite: unknown */
  double key;                       /* a lower bound of the key of its k-th nearest row */
} kf_guess_sample;

/* key = base + slope * predictor */
typedef struct kf_guess_line {
  double base, slope;
} kf_guess_line;

typedef struct kf_guesser {
  kf_guess_line line[KF_GUESS_LOOKS];
} kf_guesser;

/* Fits the lines; one with too few samples guesses nothing. */
kf_guesser kf_guesser_of(const kf_guess_sample *samples, uint32_t n);
/* The floor of a query; minus infinity: no guess. */
double kf_guess(const kf_guesser *guesser, uint32_t look, double predictor);

#endif
