// Constants of a tile.
#ifndef IPU_TF_POPLAR_DEVICE_GC_TILE_DEFINES_H_
#define IPU_TF_POPLAR_DEVICE_GC_TILE_DEFINES_H_

#define CTXT_WORKERS 6

// The register with the number of the worker, and the bits of it.
#define CSR_W_WSR__INDEX 112
#define CSR_W_WSR__CTXTID_M1__MASK 7
#define CSR_W_WSR__CTXTID_M1__SHIFT 0

#endif  // IPU_TF_POPLAR_DEVICE_GC_TILE_DEFINES_H_
