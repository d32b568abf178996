// AVX-512: 12 rows x 32 columns of accumulators. Nothing shared and inline may be instantiated here: the
// linker could pick this file's AVX-512 copy for machines that lack it.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of the undefined vectors in its own header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

#include "kernels.h"

namespace ipu_tf {
namespace avx512 {
namespace {

using Vector = __m512;
using Mask = __mmask16;
constexpr int kLanes = 16;
constexpr int kBlockRows = 12;
// 768 cycles on a Zen 4: a line from memory takes about as long. 3x3 convolutions take 0.96 to 1.0 of the time that
// they take where a block fetches all at once, 1x1 ones 0.88 to 1.02; with 16 and 64 about as long.
constexpr int kPieceSteps = 32;
constexpr char kName[] = "avx512";

inline Mask MakeMask(int64_t count) {
  return count >= kLanes ? Mask(0xffff) : count <= 0 ? Mask(0) : Mask((1u << count) - 1);
}
inline Vector Zero() { return _mm512_setzero_ps(); }
inline Vector Broadcast(const float* p) { return _mm512_set1_ps(*p); }
inline Vector Load(const float* p) { return _mm512_loadu_ps(p); }
inline Vector Load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
inline void Store(float* p, Vector v) { _mm512_storeu_ps(p, v); }
inline void Stream(float* p, Vector v) { _mm512_stream_ps(p, v); }
inline void Store(float* p, Vector v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
inline Vector MultiplyAdd(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
// sums[j] += *x * columns[j]. Left to itself, GCC 12 loads ahead for several rows and spills what it has loaded:
// convolutions take 1.06 times as long.
template <int Vectors>
inline void AddRow(const float* x, const Vector* columns, Vector* sums) {
  if constexpr (Vectors == 2) {
    Vector all;
    asm("vbroadcastss %3, %2\n\tvfmadd231ps %4, %2, %0\n\tvfmadd231ps %5, %2, %1"
        : "+v"(sums[0]), "+v"(sums[1]), "=&v"(all)
        : "m"(*x), "v"(columns[0]), "v"(columns[1]));
  } else {
    const Vector all = Broadcast(x);
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) sums[j] = MultiplyAdd(all, columns[j], sums[j]);
  }
}
inline Vector Relu(Vector v) { return _mm512_max_ps(_mm512_setzero_ps(), v); }      // NaN stays.
inline Vector UpToSix(Vector v) { return _mm512_min_ps(_mm512_set1_ps(6.0f), v); }  // So it does.
inline Vector Add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
inline Vector Subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }

inline Vector FromHalf(__m256i h) { return _mm512_cvtph_ps(h); }
inline Vector LoadHalf(const uint16_t* p) { return FromHalf(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }

// Clamps to the finite range of float16; NaN passes (min and max return their second operand then).
inline Vector Saturate(Vector v) {
  v = _mm512_min_ps(_mm512_set1_ps(65504.0f), v);
  return _mm512_max_ps(_mm512_set1_ps(-65504.0f), v);
}

inline Vector Multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
inline Mask IsPositive(Vector v) { return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ); }
inline Mask Equal(Vector a, Vector b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
inline Mask And(Mask a, Mask b) { return a & b; }
inline Mask AndNot(Mask a, Mask b) { return Mask(~a & b); }
inline bool Any(Mask m) { return m != 0; }
inline Vector Keep(Vector v, Mask m) { return _mm512_maskz_mov_ps(m, v); }
inline Mask MaskOfBytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm_test_epi8_mask(bytes, bytes);
}

// 32-bit values in the low halves of 64-bit lanes; what is in the high halves does not matter.
using Words = unsigned long long __attribute__((vector_size(64)));
constexpr int kWords = 8;
inline Words MultiplyLow(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
inline void StoreLow(uint8_t* p, Words w) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi64_epi32(reinterpret_cast<__m512i>(w)));
}

constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
inline __m256i ToInfiniteHalf(Vector v) { return _mm512_cvtps_ph(v, kNearest); }
inline __m256i ToHalf(Vector v, bool nanoo) {
  if (!nanoo) return _mm512_cvtps_ph(Saturate(v), kNearest);
  const __m256i h = _mm512_cvtps_ph(v, kNearest);
  const __m256i magnitude = _mm256_and_si256(h, _mm256_set1_epi16(0x7fff));
  const __m256i infinite = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7c00));
  return _mm256_blendv_epi8(h, _mm256_set1_epi16(0x7e00), infinite);
}
inline void StoreHalf(uint16_t* p, __m256i h) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), h); }

// Transposes a 16 x 16 block: to[c * ldt + r] = from[r * ldf + c].
inline void TransposeBlock(const float* from, int64_t ldf, float* to, int64_t ldt) {
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = Load(from + i * ldf);
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const __m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
    const __m512 c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
    const __m512 d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
    t[i] = _mm512_shuffle_ps(a, c, 0x44);
    t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
    t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
    t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
  }
  // t[4 * g + j], 128-bit lane l, holds column 4 * l + j of rows 4 * g .. 4 * g + 3.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 a = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x88);
    const __m512 c = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xdd);
    const __m512 d = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xdd);
    Store(to + j * ldt, _mm512_shuffle_f32x4(a, b, 0x88));
    Store(to + (8 + j) * ldt, _mm512_shuffle_f32x4(a, b, 0xdd));
    Store(to + (4 + j) * ldt, _mm512_shuffle_f32x4(c, d, 0x88));
    Store(to + (12 + j) * ldt, _mm512_shuffle_f32x4(c, d, 0xdd));
  }
}

#include "kernels_elements.inc"

#include "kernels.inc"

}  // namespace
}  // namespace avx512

const Kernels& Avx512Kernels() { return avx512::kTable; }

}  // namespace ipu_tf
