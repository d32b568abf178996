// Registers for the arithmetic of the chip. They have no effect here: no exception of floating point ends a program,
// and sums of halves round to nearest.
#ifndef IPU_TF_POPLAR_CSR_FUNCTIONS_HPP_
#define IPU_TF_POPLAR_CSR_FUNCTIONS_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace poplar {
inline namespace ipu_tf {

struct FloatingPointBehaviour {
  FloatingPointBehaviour(bool inv = true, bool div0 = true, bool oflo = true, bool esr = true, bool nanoo = true)
      : inv(inv), div0(div0), oflo(oflo), esr(esr), nanoo(nanoo) {}

  bool inv;
  bool div0;
  bool oflo;
  bool esr;
  bool nanoo;
};

inline void setFloatingPointBehaviour(Graph&, program::Sequence&, const FloatingPointBehaviour&,
                                      const DebugContext& = {}) {}
inline void setStochasticRounding(Graph&, program::Sequence&, bool, const DebugContext& = {}) {}

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CSR_FUNCTIONS_HPP_
