/* gemm.h - c += a^T b in vectors. wide.h includes it once for f64 and once for f32, with REAL, VEC,
 * LANES, NAME and FUSED defined. Every sum runs over k in order, and each step is rounded once. */

#define COLUMNS (NV * LANES)

/* Packs columns [0, width) of rows [0, depth), padded with zeros to `full` columns (a constant). */
static inline void NAME(pack_panel)(const REAL *from, size_t ld, size_t depth, size_t width,
                                    size_t full, REAL *to) {
  if (width == full)
    for (size_t k = 0; k < depth; k++) memcpy(to + k * full, from + k * ld, full * sizeof *to);
  else
    for (size_t k = 0; k < depth; k++)
      for (size_t j = 0; j < full; j++) to[k * full + j] = j < width ? from[k * ld + j] : 0;
}

/* Continues MR x COLUMNS sums from c over `depth` steps. Rows of b are ldb apart. Unless `packed`
 * is NULL, they are packed on the way, which hides most of the cost of packing. */
static inline __attribute__((always_inline)) void NAME(continue_sums)(const REAL *a, const REAL *b,
                                                                      size_t ldb, REAL *packed,
                                                                      size_t depth, REAL *c,
                                                                      size_t ldc) {
  enum { AHEAD = 8 }; /* rows of b prefetched */
  VEC sum[MR][NV];
  UNROLL
  for (int i = 0; i < MR; i++) {
    UNROLL
    for (int v = 0; v < NV; v++) sum[i][v] = NAME(load)(c + (size_t)i * ldc + (size_t)v * LANES);
  }
  for (size_t k = 0; k < depth; k++) {
    VEC row[NV];
    UNROLL
    for (int v = 0; v < NV; v++) {
      row[v] = NAME(load)(b + k * ldb + (size_t)v * LANES);
      if (packed == NULL) continue;
      __builtin_prefetch(b + (k + AHEAD) * ldb + (size_t)v * LANES);
      NAME(store)(packed + k * COLUMNS + (size_t)v * LANES, row[v]);
    }
    UNROLL
    for (int i = 0; i < MR; i++) {
      VEC by = NAME(all)(a[k * MR + (size_t)i]);
      UNROLL
      for (int v = 0; v < NV; v++) sum[i][v] = NAME(fused)(by, row[v], sum[i][v]);
    }
  }
  UNROLL
  for (int i = 0; i < MR; i++) {
    UNROLL
    for (int v = 0; v < NV; v++) NAME(store)(c + (size_t)i * ldc + (size_t)v * LANES, sum[i][v]);
  }
}

static void NAME(gemm_micro)(const REAL *a, const REAL *b, size_t depth, REAL *c, size_t ldc) {
  NAME(continue_sums)(a, b, COLUMNS, NULL, depth, c, ldc);
}

/* The first tile of a panel: also packs the panel for the other tiles. */
static void NAME(gemm_first)(const REAL *a, const REAL *b, size_t ldb, REAL *packed, size_t depth,
                             REAL *c, size_t ldc) {
  NAME(continue_sums)(a, b, ldb, packed, depth, c, ldc);
}

/* Prefetches the tile below while this one is computed: c is larger than the caches. */
static inline void NAME(prefetch_tile)(const REAL *c, size_t ldc, size_t rows) {
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < COLUMNS; j += 64 / sizeof *c) __builtin_prefetch(c + i * ldc + j);
}

/* A tile at the edge of c goes through a full-size buffer. */
static void NAME(gemm_edge)(const REAL *a, const REAL *b, size_t depth, REAL *c, size_t ldc,
                            size_t m, size_t n) {
  REAL full[MR * COLUMNS] = {0};
  for (size_t i = 0; i < m; i++) memcpy(full + i * COLUMNS, c + i * ldc, n * sizeof *c);
  NAME(gemm_micro)(a, b, depth, full, COLUMNS);
  for (size_t i = 0; i < m; i++) memcpy(c + i * ldc, full + i * COLUMNS, n * sizeof *c);
}

/* Packs at most GEMM_ROWS x GEMM_DEPTH of a for the second-level cache (288 KiB in f64 with
 * AVX-512) and panels of b for the first (48 KiB). Sums continue from c, so blocking does not
 * change their order. */
static void NAME(gemm_block)(const REAL *a, size_t lda, const REAL *b, size_t ldb, REAL *c,
                             size_t ldc, size_t m, size_t n, size_t depth) {
  REAL packed_a[GEMM_ROWS * GEMM_DEPTH] __attribute__((aligned(64)));
  REAL packed_b[GEMM_DEPTH * COLUMNS] __attribute__((aligned(64)));
  for (size_t i = 0; i < m; i += MR)
    NAME(pack_panel)(a + i, lda, depth, m - i < MR ? m - i : MR, MR, packed_a + i * depth);
  for (size_t j = 0; j < n; j += COLUMNS) {
    size_t columns = n - j < COLUMNS ? n - j : COLUMNS;
    bool whole = columns == COLUMNS && m >= MR; /* the first tile is full, so it packs the panel */
    if (!whole) NAME(pack_panel)(b + j, ldb, depth, columns, COLUMNS, packed_b);
    for (size_t i = 0; i < m; i += MR) {
      size_t rows = m - i < MR ? m - i : MR;
      REAL *to = c + i * ldc + j;
      if (i + 2 * MR <= m) NAME(prefetch_tile)(to + MR * ldc, ldc, MR);
      if (i == 0 && whole)
        NAME(gemm_first)(packed_a, b + j, ldb, packed_b, depth, to, ldc);
      else if (rows == MR && columns == COLUMNS)
        NAME(gemm_micro)(packed_a + i * depth, packed_b, depth, to, ldc);
      else
        NAME(gemm_edge)(packed_a + i * depth, packed_b, depth, to, ldc, rows, columns);
    }
  }
}

/* Few rows of c: packing b, which is read once, would cost more than the products. c stays in the
 * first-level cache while rows of b pass over it, eight at a time. */
static void NAME(gemm_few)(const REAL *a, size_t lda, const REAL *b, size_t ldb, REAL *c,
                           size_t ldc, size_t m, size_t n, size_t depth) {
  enum { STEPS = 8 };
  for (size_t k = 0; k < depth; k += STEPS) {
    size_t steps = depth - k < STEPS ? depth - k : STEPS,
           whole = steps == STEPS ? n - n % LANES : 0;
    const REAL *rows = b + k * ldb;
    for (size_t i = 0; i < m; i++) {
      REAL factor[STEPS] = {0}, *to = c + i * ldc;
      for (size_t t = 0; t < steps; t++) factor[t] = a[(k + t) * lda + i];
      for (size_t j = 0; j < whole; j += LANES) {
        VEC sum = NAME(load)(to + j);
        UNROLL
        for (size_t t = 0; t < STEPS; t++)
          sum = NAME(fused)(NAME(load)(rows + t * ldb + j), NAME(all)(factor[t]), sum);
        NAME(store)(to + j, sum);
      }
      for (size_t j = whole; j < n; j++)
        for (size_t t = 0; t < steps; t++) to[j] = FUSED(rows[t * ldb + j], factor[t], to[j]);
    }
  }
}

static void NAME(wide_gemm_tn)(const REAL *a, size_t lda, const REAL *b, size_t ldb, REAL *c,
                               size_t ldc, size_t m, size_t n, size_t depth) {
  if (m <= GEMM_FEW) {
    NAME(gemm_few)(a, lda, b, ldb, c, ldc, m, n, depth);
    return;
  }
  for (size_t i = 0; i < m; i += GEMM_ROWS) {
    size_t rows = m - i < GEMM_ROWS ? m - i : GEMM_ROWS;
    for (size_t k = 0; k < depth; k += GEMM_DEPTH) {
      size_t steps = depth - k < GEMM_DEPTH ? depth - k : GEMM_DEPTH;
      NAME(gemm_block)(a + k * lda + i, lda, b + k * ldb, ldb, c + i * ldc, ldc, rows, n, steps);
    }
  }
}

#undef COLUMNS
#undef REAL
#undef VEC
#undef LANES
#undef NAME
#undef FUSED
