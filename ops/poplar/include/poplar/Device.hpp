// A device: here always the simulated machine.
#ifndef IPU_TF_POPLAR_DEVICE_HPP_
#define IPU_TF_POPLAR_DEVICE_HPP_

#include <optional>
#include <vector>

#include <poplar/OptionFlags.hpp>
#include <poplar/Target.hpp>

namespace poplar {
inline namespace ipu_tf {

class Device {
 public:
  // No device; any use but an assignment raises poplar_error.
  Device() = default;

  unsigned getId() const { return id_; }
  const Target& getTarget() const;
  // True: nobody else has this device.
  bool attach() const { return true; }
  void detach() const {}
  bool isAttached() const { return true; }
  bool supportsRemoteBuffers() const { return true; }
  // The same machine with fewer tiles on each IPU.
  Device createVirtualDevice(unsigned tilesPerIPU) const;

 private:
  friend class DeviceManager;
  friend class IPUModel;

  Target target_;
  unsigned id_ = 0;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_DEVICE_HPP_
