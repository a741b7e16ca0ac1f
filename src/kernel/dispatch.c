/* dispatch.c - the instruction sets of this machine.
 *
 * AMX needs three things: a CPU that has it, an operating system that saves the tile registers
 * (XCR0), and the kernel's permission for this process (Linux: arch_prctl, once per process). A
 * virtual machine may hide any of them; AMX then counts as absent. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_avx2(void) {
  unsigned a, b, c, d;
  bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

bool kf_has_avx512bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

/* On AMD's cores VDPBF16PS does the work of two FMAs in the time of one. On Intel's it is slower
 * than FMA, so it is not used there (bench/kernels.c). */
static bool gains_by_bf16(void) { return kf_has_avx512bf16() && __builtin_cpu_is("amd"); }

static uint64_t enabled_state(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static bool amx_granted;

static void ask_for_amx(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  unsigned a, b, c, d;
  if (!kf_has_avx512bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
  bool bf16 = d >> 22 & 1, tile = d >> 24 & 1, int8 = d >> 25 & 1;
  if (!bf16 || !tile || !int8 || (enabled_state() >> 17 & 3) != 3) return;
  amx_granted = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static bool has_amx(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, ask_for_amx);
  return amx_granted;
}

#endif

const kf_kernels *kf_kernels_for(kf_isa isa) {
#ifdef KF_SIMD
  if ((isa == KF_ISA_AUTO || isa == KF_ISA_AMX) && has_amx()) return &kf_kernels_amx;
  if ((isa == KF_ISA_AUTO || isa == KF_ISA_AVX512) && has_avx512())
    return gains_by_bf16() ? &kf_kernels_avx512bf16 : &kf_kernels_avx512;
  if ((isa == KF_ISA_AUTO || isa == KF_ISA_AVX2) && has_avx2()) return &kf_kernels_avx2;
#endif
  return isa == KF_ISA_AUTO || isa == KF_ISA_PLAIN ? &kf_kernels_plain : NULL;
}

int kf_isa_available(kf_isa isa) { return kf_kernels_for(isa) != NULL; }

const char *kf_isa_name(kf_isa isa) {
  static const char *const names[] = {"auto", "plain", "avx2", "avx512", "amx"};
  return (unsigned)isa < sizeof names / sizeof *names ? names[isa] : NULL;
}
