// Codelets that use what the headers of the device declare.
#include <arch/gc_tile_defines.h>
#include <ipudef.h>
#include <print.h>
#include <ipu_memory_intrinsics>
#include <ipu_vector_math>

#include <cassert>
#include <limits>
#include <poplar/HalfFloat.hpp>
#include <poplar/Loops.hpp>
#include <poplar/StackSizeDefs.hpp>
#include <poplar/Vertex.hpp>

#ifdef __IPU__
#error "models compile codelets for the host"
#endif
#ifndef __POPC__
#error "codelets know that they are codelets"
#endif

using namespace poplar;

static constexpr auto ONE_PTR = VectorLayout::ONE_PTR;
static constexpr auto DELTAN = VectorListLayout::DELTAN;

DEF_STACK_USAGE(256, __runCodelet_Layouts);

// A constructor without body, constants without values, private members.
class Layouts : public Vertex {
 public:
  Layouts();

  Input<Vector<float, VectorLayout::SPAN, 8>> span;
  Input<Vector<float, VectorLayout::SHORT_SPAN>> short_span;
  Input<Vector<float, ONE_PTR, 8, true>> one_ptr;
  Input<Vector<float, VectorLayout::SCALED_PTR32, 4>> scaled32;
  Input<Vector<float, VectorLayout::SCALED_PTR64, 8>> scaled64;
  Input<Vector<float, VectorLayout::SCALED_PTR128, 16>> scaled128;
  Input<Vector<float, VectorLayout::COMPACT_PTR, 8>> compact;
  Vector<Input<Vector<float, ONE_PTR>>, ONE_PTR> rows;
  Input<VectorList<float, DELTAN>> deltan;
  Input<VectorList<float, VectorListLayout::DELTANELEMENTS>> elements;
  InOut<VectorList<float, VectorListLayout::COMPACT_DELTAN>> lists;
  [[poplar::constraint("elem(*span)!=elem(*sums)")]] InOut<Vector<float>> sums;
  const unsigned n;

 private:
  Vector<float, ONE_PTR> weights;

 public:
  IS_EXTERNAL_CODELET(false);
  bool compute() {
    assert(n == span.size());
    __builtin_assume(n == 4);
    float* sum = &sums[0];
    for (unsigned i = 0; i < n; ++i) sum[0] += span[i] * weights[i];
    for (const float x : short_span) sum[1] += x;
    for (unsigned i = 0; i < n; ++i) {
      sum[2] += one_ptr[i] + scaled32[i] + scaled64[i] + scaled128[i] + compact[i];
      sum[3] += rows[0][i] - rows[1][i];
      sum[4] += deltan[1][i] * elements[0][i];
    }
    for (unsigned r = 0; r < lists.size(); ++r) {
      for (unsigned i = 0; i < lists[r].size(); ++i) lists[r][i] *= 2;
    }
    return true;
  }
};

template <bool is_supervisor>
class Either : public SupervisorVertexIf<is_supervisor> {
 public:
  InOut<int> value;
  void compute() { *value += is_supervisor ? 10 : 1; }
};
template class Either<true>;
template class Either<false>;

// Results by place, so that the host need not compute them anew.
class Intrinsics : public Vertex {
 public:
  Input<Vector<float, ONE_PTR, 8>> in;
  Output<Vector<float>> out;

  bool compute() {
    unsigned at = 0;
    const auto put = [&](float x) { out[at++] = x; };
    // An Input's elements, through pointers of other types.
    const float2* pairs = reinterpret_cast<const float2*>(&in[0]);
    float2 pair = ipu::load_postinc(&pairs, 1);
    put(pair.x + pair.y);
    put(ipu::load_postinc(&pairs, -1).x);
    float room[4] = {};
    float* place = room;
    ipu::store_postinc(&place, 5.0f, 2);
    ipu::store_postinc(&place, 6.0f, 1);
    put(room[0] + room[2] + static_cast<float>(place - room));
    put(ipu::andc(-3.0f, -0.0f));
    put(__builtin_ipu_andc(float2{-1, -2}, float2{-0.0f, -0.0f})[1]);
    put(static_cast<float>(__builtin_ipu_andc(7, 2)));
    put(__builtin_ipu_min(2.0f, 1.0f) + __builtin_ipu_max(half2{1, 2}, half2{3, 0})[1]);
    put(__builtin_ipu_absmax(-3.0f, 2.0f) + __builtin_ipu_absadd(float2{-1, -1}, float2{2, -2}).y);
    put(__builtin_ipu_clamp(float2{-4, 9}, float2{0, 1}).y + __builtin_ipu_clamp(-4.0f, float2{0, 1}));
    put(__builtin_ipu_sum(half2{1, 2}) + __builtin_ipu_sum(half4{1, 2, 3, 4})[1]);
    put(__builtin_ipu_exp(0.0f) + __builtin_ipu_exp2(half2{3, 0})[0] + __builtin_ipu_ln(1.0f) +
        __builtin_ipu_log2(8.0f) + __builtin_ipu_tanh(0.0f) + __builtin_ipu_sigm(0.0f));
    put(__builtin_ipu_and(__builtin_ipu_cmpgt(2.0f, 1.0f), 4.0f) + __builtin_ipu_cmplt(2.0f, 1.0f));
    put(static_cast<float>(__builtin_ipu_isnan(0.0f / in[7]) + 2 * __builtin_ipu_isfinite(1.0f) +
                           4 * __builtin_ipu_isinf(half2{1, 2})[0]));
    put(ipu::sqrt(float2{4, 9}).y + ipu::fma(2.0f, 3.0f, 1.0f) + ipu::fabs(half2{-1, 1})[0]);
    put(__builtin_ipu_f16tof32(__builtin_ipu_f32tof16(1.5f)) + static_cast<float>(0.5_h));
    put(static_cast<float>(std::numeric_limits<half>::max()));
    ipu::rptLoop(3, [&](unsigned i) { room[3] += static_cast<float>(i); });
    put(room[3]);
    put(static_cast<float>(__builtin_ipu_get_tile_id()));
    put(static_cast<float>(__builtin_ipu_get(CSR_W_WSR__INDEX) & CSR_W_WSR__CTXTID_M1__MASK));
    float4 four = {1, 2, 3, 4};
    four *= 2.0f;
    put(four.w + four[0]);
    const float uniform = __builtin_ipu_urand_f32();
    put(uniform >= -0.5f && uniform < 0.5f && __builtin_ipu_urand64() != __builtin_ipu_urand32() ? 1.0f : 0.0f);
    float mean = 0;
    float square = 0;
    for (int i = 0; i < 2000; ++i) {
      const float2 normal = __builtin_ipu_f32v2grand();
      mean += normal.x + normal.y;
      square += normal.x * normal.x + normal.y * normal.y;
    }
    put(mean / 4000);
    put(square / 4000);
    return true;
  }
};
