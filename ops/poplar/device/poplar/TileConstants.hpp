// Constants of a tile.
#ifndef IPU_TF_POPLAR_DEVICE_TILE_CONSTANTS_HPP_
#define IPU_TF_POPLAR_DEVICE_TILE_CONSTANTS_HPP_

#include <arch/gc_tile_defines.h>

#endif  // IPU_TF_POPLAR_DEVICE_TILE_CONSTANTS_HPP_
