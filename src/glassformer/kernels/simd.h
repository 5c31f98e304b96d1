// The registers and instructions of products.cpp: AVX-512 VNNI on x86, and on ARM Neon with dot
// products of bytes (asimddp).
//
//     Ints, Floats    LANES numbers of 32 bits
//     FourBytes       four inputs of a token, to be multiplied with the four weights of each lane
//     OneNumber       a number, to be multiplied with each lane

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

#include <immintrin.h>

namespace {

using Ints = __m512i;
using Floats = __m512;
using FourBytes = __m512i;
using OneNumber = __m512;
constexpr int LANES = 16;
constexpr int TO_INT8 = 128;  // is added to int8 weights: one factor of the products is unsigned
constexpr int INT4_ROWS = 4;  // vectors that are multiplied together with int4 weights
constexpr int64_t FEW_TOKENS = 32;  // for so many, float32 products are dot products of rows
constexpr int AHEAD = 2048;  // bytes between what is read and what is fetched from memory

inline Ints all(int32_t number) { return _mm512_set1_epi32(number); }
inline Floats all(float number) { return _mm512_set1_ps(number); }
inline Floats as_floats(Ints numbers) { return _mm512_cvtepi32_ps(numbers); }
inline Ints nearest(Floats numbers) { return _mm512_cvtps_epi32(numbers); }
inline Floats product(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats difference(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
inline Floats absolute(Floats numbers) { return _mm512_abs_ps(numbers); }
inline Floats maximum(Floats a, Floats b) { return _mm512_max_ps(a, b); }
inline float maximum(Floats numbers) { return _mm512_reduce_max_ps(numbers); }
inline float sum(Floats numbers) { return _mm512_reduce_add_ps(numbers); }
inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Floats numbers) { _mm512_storeu_ps(to, numbers); }

inline Floats load_first(const float* from, int64_t count) {  // the others are 0
  return _mm512_maskz_loadu_ps((1 << count) - 1, from);
}

inline Floats load_bfloat16(const void* from) {
  const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

inline void store_bytes(int8_t* to, Ints numbers, int64_t count) {
  _mm512_mask_cvtepi32_storeu_epi8(to, (1 << count) - 1, numbers);
}

inline Ints load_weights(const uint8_t* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from + AHEAD), _MM_HINT_T0);
  return _mm512_loadu_si512(from);
}

inline Ints low_halves(Ints bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
inline Ints high_halves(Ints bytes) { return low_halves(_mm512_srli_epi16(bytes, 4)); }

inline FourBytes four_bytes(const int8_t* from) {
  int32_t word;
  std::memcpy(&word, from, 4);
  return _mm512_set1_epi32(word);
}

inline OneNumber one_number(const float* from) { return _mm512_set1_ps(*from); }

// As assembly, since GCC 12 copies the sums of the intrinsic from register to register.
inline void add_products(Ints& sums, Ints weights, FourBytes inputs) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(inputs));
}

inline void add_products(Floats& sums, Floats a, Floats b) { sums = _mm512_fmadd_ps(a, b, sums); }

// to[i][j] = from[j][i] for LANES rows and columns.
inline void transpose(const float* from, int64_t stride, float* to, int64_t to_stride) {
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < LANES; j++) to[i * to_stride + j] = from[j * stride + i];
}

#elif defined(__ARM_FEATURE_DOTPROD)

#include <arm_neon.h>

namespace {

using Ints = int32x4_t;
using Floats = float32x4_t;
struct FourBytes {
  Ints first;  // in its first lane
};
struct OneNumber {
  Floats first;
};
constexpr int LANES = 4;
constexpr int TO_INT8 = 0;
constexpr int INT4_ROWS = 3;
constexpr int64_t FEW_TOKENS = 8;

inline Ints all(int32_t number) { return vdupq_n_s32(number); }
inline Floats all(float number) { return vdupq_n_f32(number); }
inline Floats as_floats(Ints numbers) { return vcvtq_f32_s32(numbers); }
inline Ints nearest(Floats numbers) { return vcvtnq_s32_f32(numbers); }
inline Floats product(Floats a, Floats b) { return vmulq_f32(a, b); }
inline Floats difference(Floats a, Floats b) { return vsubq_f32(a, b); }
inline Floats absolute(Floats numbers) { return vabsq_f32(numbers); }
inline Floats maximum(Floats a, Floats b) { return vmaxq_f32(a, b); }
inline float maximum(Floats numbers) { return vmaxvq_f32(numbers); }
inline float sum(Floats numbers) { return vaddvq_f32(numbers); }
inline Floats load(const float* from) { return vld1q_f32(from); }
inline void store(float* to, Floats numbers) { vst1q_f32(to, numbers); }

inline Floats load_first(const float* from, int64_t count) {
  if (count == LANES) return load(from);
  float numbers[LANES] = {};
  std::memcpy(numbers, from, count * sizeof(float));
  return load(numbers);
}

inline Floats load_bfloat16(const void* from) {
  const uint16x4_t halves = vld1_u16(static_cast<const uint16_t*>(from));
  return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
}

inline void store_bytes(int8_t* to, Ints numbers, int64_t) {  // always all lanes
  const int16x4_t halves = vmovn_s32(numbers);
  const int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
  std::memcpy(to, &bytes, LANES);
}

inline Ints load_weights(const uint8_t* from) { return vreinterpretq_s32_u8(vld1q_u8(from)); }

inline Ints low_halves(Ints bytes) {
  return vreinterpretq_s32_u8(vandq_u8(vreinterpretq_u8_s32(bytes), vdupq_n_u8(15)));
}

inline Ints high_halves(Ints bytes) {
  return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(bytes), 4));
}

// As assembly: a copy to all lanes would cost as much as a product.
inline FourBytes four_bytes(const int8_t* from) {
  FourBytes inputs;
  asm("ldr %s0, %1" : "=w"(inputs.first) : "m"(*reinterpret_cast<const int8_t(*)[4]>(from)));
  return inputs;
}

inline OneNumber one_number(const float* from) {
  OneNumber number;
  asm("ldr %s0, %1" : "=w"(number.first) : "m"(*from));
  return number;
}

inline void add_products(Ints& sums, Ints weights, FourBytes inputs) {
  asm("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sums) : "w"(weights), "w"(inputs.first));
}

inline void add_products(Floats& sums, Floats a, OneNumber b) {
  asm("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sums) : "w"(a), "w"(b.first));
}

inline void add_products(Floats& sums, Floats a, Floats b) { sums = vfmaq_f32(sums, a, b); }

inline void transpose(const float* from, int64_t stride, float* to, int64_t to_stride) {
  const auto pairs = [=](int row) {  // of the columns: 0 and 2, 1 and 3
    const auto both = vtrnq_f32(load(from + row * stride), load(from + (row + 1) * stride));
    return float64x2x2_t{vreinterpretq_f64_f32(both.val[0]), vreinterpretq_f64_f32(both.val[1])};
  };
  const float64x2x2_t upper = pairs(0), lower = pairs(2);
  for (int i = 0; i < 2; i++) {
    const float64x2_t first = vtrn1q_f64(upper.val[i], lower.val[i]);
    const float64x2_t second = vtrn2q_f64(upper.val[i], lower.val[i]);
    store(to + i * to_stride, vreinterpretq_f32_f64(first));
    store(to + (i + 2) * to_stride, vreinterpretq_f32_f64(second));
  }
}

#else
#error "this processor has neither AVX-512 VNNI nor dot products of bytes"
#endif

constexpr int LINE = 16;  // float32 numbers of a line of the cache

// From memory into the second cache.
inline void prefetch(const void* from) { __builtin_prefetch(from, 0, 2); }

}  // namespace
