// Declared with what such a function knows.
#ifndef IPU_TF_POPLAR_PERF_ESTIMATE_FUNC_HPP_
#define IPU_TF_POPLAR_PERF_ESTIMATE_FUNC_HPP_

#include <poplar/VertexIntrospector.hpp>

#endif  // IPU_TF_POPLAR_PERF_ESTIMATE_FUNC_HPP_
