// AVX2, FMA and F16C: 6 rows x 16 columns of accumulators.
#include <immintrin.h>

#include "kernels.h"

namespace ipu_tf {
namespace avx2 {
namespace {

using Vector = __m256;
using Mask = __m256i;
constexpr int kLanes = 8;
constexpr int kBlockRows = 6;
constexpr int kPieceSteps = 128;  // As many cycles as with AVX-512.
constexpr char kName[] = "avx2";

inline Mask MakeMask(int64_t count) {
  const int limit = static_cast<int>(count < 0 ? 0 : count > kLanes ? kLanes : count);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vector Zero() { return _mm256_setzero_ps(); }
inline Vector Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
inline Vector Load(const float* p) { return _mm256_loadu_ps(p); }
inline Vector Load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
inline void Store(float* p, Vector v) { _mm256_storeu_ps(p, v); }
inline void Stream(float* p, Vector v) { _mm256_stream_ps(p, v); }
// Of a mask by MakeMask, whose first lanes are set. Masked stores are microcode on AMD's processors, each as long as a
// dozen whole ones.
inline void Store(float* p, Vector v, Mask m) {
  const int lanes = _mm256_movemask_ps(_mm256_castsi256_ps(m));
  if (__builtin_expect(lanes == 0xff, 1)) return Store(p, v);
  __m128 rest = _mm256_castps256_ps128(v);
  if (lanes & 0x08) {
    _mm_storeu_ps(p, rest);
    p += 4;
    rest = _mm256_extractf128_ps(v, 1);
  }
  const int left = lanes & 0x08 ? lanes >> 4 : lanes;
  if (left & 0x2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
    p += 2;
    rest = _mm_movehl_ps(rest, rest);
  }
  if (left == 0x1 || left == 0x7) _mm_store_ss(p, rest);
}
inline Vector MultiplyAdd(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
// sums[j] += *x * columns[j]. Left to itself, GCC 12 loads ahead: convolutions take 1.04 times as long.
template <int Vectors>
inline void AddRow(const float* x, const Vector* columns, Vector* sums) {
  if constexpr (Vectors == 2) {
    Vector all;
    asm("vbroadcastss %3, %2\n\tvfmadd231ps %4, %2, %0\n\tvfmadd231ps %5, %2, %1"
        : "+x"(sums[0]), "+x"(sums[1]), "=&x"(all)
        : "m"(*x), "x"(columns[0]), "x"(columns[1]));
  } else {
    const Vector all = Broadcast(x);
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) sums[j] = MultiplyAdd(all, columns[j], sums[j]);
  }
}
inline Vector Relu(Vector v) { return _mm256_max_ps(_mm256_setzero_ps(), v); }      // NaN stays.
inline Vector UpToSix(Vector v) { return _mm256_min_ps(_mm256_set1_ps(6.0f), v); }  // So it does.
inline Vector Add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
inline Vector Subtract(Vector a, Vector b) { return _mm256_sub_ps(a, b); }

inline Vector FromHalf(__m128i h) { return _mm256_cvtph_ps(h); }
inline Vector LoadHalf(const uint16_t* p) { return FromHalf(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }

// Clamps to the finite range of float16; NaN passes (min and max return their second operand then).
inline Vector Saturate(Vector v) {
  v = _mm256_min_ps(_mm256_set1_ps(65504.0f), v);
  return _mm256_max_ps(_mm256_set1_ps(-65504.0f), v);
}

inline Vector Multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
inline Mask IsPositive(Vector v) { return _mm256_castps_si256(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ)); }
inline Mask Equal(Vector a, Vector b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
inline Mask And(Mask a, Mask b) { return _mm256_and_si256(a, b); }
inline Mask AndNot(Mask a, Mask b) { return _mm256_andnot_si256(a, b); }
inline bool Any(Mask m) { return !_mm256_testz_si256(m, m); }
inline Vector Keep(Vector v, Mask m) { return _mm256_and_ps(v, _mm256_castsi256_ps(m)); }
inline Mask MaskOfBytes(const uint8_t* p) {
  const __m256i values = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cmpgt_epi32(values, _mm256_setzero_si256());
}

// 32-bit values in the low halves of 64-bit lanes; what is in the high halves does not matter.
using Words = unsigned long long __attribute__((vector_size(32)));
constexpr int kWords = 4;
inline Words MultiplyLow(Words a, Words b) {
  return reinterpret_cast<Words>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
inline void StoreLow(uint8_t* p, Words w) {
  const __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0);
  const __m256i even = _mm256_permutevar8x32_epi32(reinterpret_cast<__m256i>(w), low);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(even));
}

constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT;
inline __m128i ToInfiniteHalf(Vector v) { return _mm256_cvtps_ph(v, kNearest); }
inline __m128i ToHalf(Vector v, bool nanoo) {
  if (!nanoo) return _mm256_cvtps_ph(Saturate(v), kNearest);
  const __m128i h = _mm256_cvtps_ph(v, kNearest);
  const __m128i magnitude = _mm_and_si128(h, _mm_set1_epi16(0x7fff));
  const __m128i infinite = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7c00));
  return _mm_blendv_epi8(h, _mm_set1_epi16(0x7e00), infinite);
}
inline void StoreHalf(uint16_t* p, __m128i h) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), h); }

// Transposes an 8 x 8 block: to[c * ldt + r] = from[r * ldf + c].
inline void TransposeBlock(const float* from, int64_t ldf, float* to, int64_t ldt) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = Load(from + i * ldf);
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    const __m256 a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
    const __m256 c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
    const __m256 d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
    t[i] = _mm256_shuffle_ps(a, c, 0x44);
    t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
    t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
    t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    Store(to + j * ldt, _mm256_permute2f128_ps(t[j], t[4 + j], 0x20));
    Store(to + (4 + j) * ldt, _mm256_permute2f128_ps(t[j], t[4 + j], 0x31));
  }
}

#include "kernels_elements.inc"

#include "kernels.inc"

}  // namespace
}  // namespace avx2

const Kernels& Avx2Kernels() { return avx2::kTable; }

}  // namespace ipu_tf
