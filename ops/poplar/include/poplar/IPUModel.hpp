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
  unsigned exchangeBytesPerCycle = 4;
  // Kept for the cost model, which charges no Poplar program yet.
  unsigned minIPUSyncDelay = 0;
  RelativeSyncDelayType relativeSyncDelay = RelativeSyncDelayType::AUTO;
  // Codelets always compile for the host.
  bool compileIPUCode = false;

  Device createDevice(const OptionFlags& options = {}, bool accurateHalf = false, unsigned id = 0) const;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_IPU_MODEL_HPP_
