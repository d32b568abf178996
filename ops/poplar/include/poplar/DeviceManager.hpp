// The devices of this computer: as many simulated ones as a program asks for.
#ifndef IPU_TF_POPLAR_DEVICE_MANAGER_HPP_
#define IPU_TF_POPLAR_DEVICE_MANAGER_HPP_

#include <cstddef>
#include <vector>

#include <poplar/Device.hpp>

namespace poplar {
inline namespace ipu_tf {

class DeviceManager {
 public:
  static DeviceManager createDeviceManager() { return {}; }

  // One device for each of 1 to 64 IPUs, in powers of two.
  std::size_t getNumDevices() const { return getDevices().size(); }
  std::vector<Device> getDevices(const OptionFlags& options = {}) const;
  // The devices of a kind; for TargetType::IPU, numIPUs must be a power of two of at most 64.
  std::vector<Device> getDevices(TargetType type, unsigned numIPUs, const OptionFlags& options = {}) const;
  Device getDevice(unsigned id, const OptionFlags& options = {}) const;
  // An attached device.
  Device acquireAvailableDevice(unsigned numIPUs = 1, const OptionFlags& options = {}) const;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_DEVICE_MANAGER_HPP_
