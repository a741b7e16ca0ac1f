/* unroll.h - loops over arrays that are meant to live in registers. A compiler that leaves one such
 * loop rolled up keeps the array in memory, and stores it on every turn of the loop around it. */
#ifndef KF_UNROLL_H
#define KF_UNROLL_H

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
