// The model of an IPU, with numbers that a program may change.
#ifndef IPU_TF_POPLAR_IPU_MODEL_HPP_
#define IPU_TF_POPLAR_IPU_MODEL_HPP_

#include <string>

#include <poplar/Device.hpp>

namespace poplar {
inline namespace ipu_tf {

class IPUModel {
 public:
  enum class RelativeSyncDelayType { AUTO, NO_DELAY };

  // "ipu1" (1,216 tiles of 256 KiB) or "ipu2" (1,472 tiles of 624 KiB); raises invalid_machine_model for others.
  explicit IPUModel(const char* version = "ipu2");

  std::string IPUVersion;
  unsigned numIPUs = 1;
  unsigned tilesPerIPU = 0;
  unsigned numWorkerContexts = 6;
  unsigned memoryBytesPerTile = 0;
  double tileClockFrequency = 0;
  // Of the exchange within an IPU.
  unsigned exchangeBytesPerCycle = 4;
  // What Target::getMemcpyBytesPerCycle says; copies within a tile take their instructions.
  unsigned memcpyBytesPerCycle = 8;
  // Cycles of a sync of the tiles of an IPU.
  unsigned minIPUSyncDelay = 0;
  // Cycles that a sync of several IPUs takes besides; 0 for those of the links of the machine.
  unsigned globalSyncCycles = 0;
  // Without effect: the ways to far tiles are part of the exchange.
  RelativeSyncDelayType relativeSyncDelay = RelativeSyncDelayType::AUTO;
  // Codelets always compile for the host.
  bool compileIPUCode = false;

  Device createDevice(const OptionFlags& options = {}, bool accurateHalf = false, unsigned id = 0) const;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_IPU_MODEL_HPP_
