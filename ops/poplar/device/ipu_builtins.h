// Declared with the numbers of the device.
#ifndef IPU_TF_POPLAR_DEVICE_IPU_BUILTINS_H_
#define IPU_TF_POPLAR_DEVICE_IPU_BUILTINS_H_

#include <math.h>

#include <ipudef.h>

#endif  // IPU_TF_POPLAR_DEVICE_IPU_BUILTINS_H_
