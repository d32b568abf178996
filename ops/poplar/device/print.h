// Text from codelets, in the order of the vertices of a compute set.
#ifndef IPU_TF_POPLAR_DEVICE_PRINT_H_
#define IPU_TF_POPLAR_DEVICE_PRINT_H_

#include <cstdio>

extern "C" int ipu_tf_codelet_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));

#define printf ipu_tf_codelet_printf

#endif  // IPU_TF_POPLAR_DEVICE_PRINT_H_
