// Sizes of stacks: the host takes what a codelet needs.
#ifndef IPU_TF_POPLAR_DEVICE_STACK_SIZE_DEFS_HPP_
#define IPU_TF_POPLAR_DEVICE_STACK_SIZE_DEFS_HPP_

#define DEF_STACK_USAGE(BYTES, FUNCTION)

#endif  // IPU_TF_POPLAR_DEVICE_STACK_SIZE_DEFS_HPP_
