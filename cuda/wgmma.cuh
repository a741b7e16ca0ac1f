/* wgmma.cuh - Hopper's instructions that CUDA C++ has no functions for. */
#ifndef KF_CUDA_WGMMA_CUH
#define KF_CUDA_WGMMA_CUH

#include <cuda.h>
#include <stdint.h>

__device__ __forceinline__ uint32_t kf_shared(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* --- barriers -------------------------------------------------------------------------------- */

__device__ __forceinline__ void kf_barrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}
__device__ __forceinline__ void kf_barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void kf_barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void kf_barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile("{\n.reg .pred done;\nagain:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

/* --- the copy engine ------------------------------------------------------------------------- */

__device__ __forceinline__ void kf_copy_box(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                            int32_t column, int32_t row) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
               "l"(map), "r"(barrier), "r"(column), "r"(row)
               : "memory");
}

/* --- products -------------------------------------------------------------------------------- */

/* Descriptors of rows of WIDTH bytes (32, 64 or 128), swizzled over WIDTH bytes, in groups of
 * eight: their place in units of 16 bytes, and a constant rest. */
__device__ __forceinline__ uint32_t kf_place(uint32_t address) {
  return (address & 0x3ffff) >> 4 | 1u << 16;
}
template <int WIDTH> __device__ __forceinline__ uint64_t kf_operand_at(uint32_t place) {
  constexpr uint64_t swizzle = WIDTH == 128 ? 1 : WIDTH == 64 ? 2 : 3;
  return place | (uint64_t)(8 * WIDTH >> 4) << 32 | swizzle << 62;
}
template <int WIDTH> __device__ __forceinline__ uint64_t kf_operand(uint32_t address) {
  return kf_operand_at<WIDTH>(kf_place(address));
}
__device__ __forceinline__ void kf_wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void kf_wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> __device__ __forceinline__ void kf_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#define KF_R4(d, i)  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define KF_R16(d, i) KF_R4(d, i), KF_R4(d, i + 4), KF_R4(d, i + 8), KF_R4(d, i + 12)
#define KF_R48(d, i) KF_R16(d, i), KF_R16(d, i + 16), KF_R16(d, i + 32)

/* d (+)= a . b over 32 bytes: 64 queries by 192 rows. more == 0 discards the old d. */
__device__ __forceinline__ void kf_wgmma(int32_t (&d)[96], uint64_t a, uint64_t b, int more) {
  asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, %98, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
               "%96, %97, more;\n}\n"
               : KF_R48(d, 0), KF_R48(d, 48)
               : "l"(a), "l"(b), "r"(more));
}
/* The same for 96 rows, with 64 queries in registers: 32 bytes of each. */
__device__ __forceinline__ void kf_wgmma(int32_t (&d)[48], const uint32_t (&a)[4], uint64_t b,
                                         int more) {
  asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, %53, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
               "{%48, %49, %50, %51}, %52, more;\n}\n"
               : KF_R48(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more));
}
/* Loads four bytes of rows of WIDTH bytes that the copy engine has swizzled, given their address
 * without swizzling. */
template <int WIDTH> __device__ __forceinline__ uint32_t kf_load_swizzled(uint32_t address) {
  uint32_t x;
  address ^= address >> 3 & (WIDTH - 16);
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
/* Returns x; the compiler must keep it instead of recomputing it. */
__device__ __forceinline__ uint32_t kf_once(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
/* Keeps the compiler from moving uses of d across. */
template <int N> __device__ __forceinline__ void kf_pin(int32_t (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
}

#endif
