/* unroll.h - unrolls loops over arrays that should live in registers. If one such loop stays
 * rolled, the compiler keeps the array in memory and stores it in every iteration of the outer
 * loop. */
#ifndef KF_UNROLL_H
#define KF_UNROLL_H

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
