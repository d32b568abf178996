// Loops with a count, as the hardware has them.
#ifndef IPU_TF_POPLAR_DEVICE_LOOPS_HPP_
#define IPU_TF_POPLAR_DEVICE_LOOPS_HPP_

namespace ipu {

template <typename Body>
inline void rptLoop(unsigned count, const Body& body) {
  for (unsigned i = 0; i < count; ++i) body(i);
}

}  // namespace ipu

#endif  // IPU_TF_POPLAR_DEVICE_LOOPS_HPP_
