#include <algorithm>
#include <string>
#include <utility>

#include <poplar/Device.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/Target.hpp>
#include <poplar/exceptions.hpp>

#include "../base/values.h"

namespace poplar {
inline namespace ipu_tf {
namespace {

// Tiles, bytes of a tile, clock, columns of the matrix unit and cycles of a sync as in ipu_tf/machine/target.py, which
// names the sources.
struct Chip {
  const char* version;
  unsigned tiles;
  unsigned tile_bytes;
  double clock_hz;
  unsigned conv_units;
  unsigned sync_cycles;
};
constexpr Chip kChips[] = {{"ipu1", 1216, 256 * 1024, 1.6e9, 8, 94}, {"ipu2", 1472, 624 * 1024, 1.33e9, 16, 94}};
constexpr unsigned kMostIpus = 64;

// What the names of systems begin with, and their chips; the clock as in ipu_tf/machine/target.py.
struct System {
  const char* name;
  const char* version;
  double clock_hz;
};
constexpr System kSystems[] = {{"IPU-POD", "ipu2", 1.33e9}, {"IPU-M2000", "ipu2", 1.33e9}, {"BOW-", "ipu2", 1.85e9}};

IPUModel ModelOf(const std::string& system) {
  for (const System& one : kSystems) {
    if (system.rfind(one.name, 0) != 0) continue;
    IPUModel model(one.version);
    model.tileClockFrequency = one.clock_hz;
    return model;
  }
  if (system != "ipu1" && system != "ipu2") {
    throw invalid_machine_model(
        "Target::createIPUTarget: systems are \"ipu1\", \"ipu2\", and names that begin with IPU-POD, "
        "IPU-M2000 or BOW-. Received: \"" +
        system + "\".");
  }
  return IPUModel(system.c_str());
}

bool IsPowerOfTwo(unsigned n) { return n != 0 && (n & (n - 1)) == 0; }

}  // namespace

std::string versionString() { return "3.3.0"; }

std::size_t Target::getTypeSize(const Type& type) const { return detail::TypeBytes(type); }

unsigned Target::getVectorWidth(const Type& type) const {
  const auto bytes = static_cast<unsigned>(getTypeSize(type));
  return std::max(1u, getDataPathWidth() / 8 / bytes);
}

unsigned Target::getNumConvUnits(const Type& activations, const Type& partials) const {
  const bool is_half = activations == HALF && (partials == HALF || partials == FLOAT);
  if (!is_half && !(activations == FLOAT && partials == FLOAT)) return 0;
  for (const Chip& chip : kChips) {
    if (version_ == chip.version) return chip.conv_units;
  }
  return 0;
}

Target Target::createIPUTarget(unsigned numIPUs, StringRef system, const OptionFlags& options) {
  return createIPUTarget(numIPUs, ModelOf(std::string(system)).tilesPerIPU, system, options);
}

Target Target::createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, StringRef system, const OptionFlags&) {
  IPUModel model = ModelOf(std::string(system));
  model.numIPUs = numIPUs;
  model.tilesPerIPU = tilesPerIPU;
  Target target = model.createDevice().getTarget();
  target.type_ = TargetType::IPU;
  return target;
}

Target Target::createCPUTarget(bool, unsigned numIPUs) {
  Target target;
  target.type_ = TargetType::CPU;
  target.version_ = "cpu";
  target.num_ipus_ = numIPUs;
  target.tiles_per_ipu_ = 1;
  target.workers_ = 1;
  target.bytes_per_tile_ = ~0u;
  target.exchange_bytes_per_cycle_ = 4;
  target.memcpy_bytes_per_cycle_ = 8;
  target.clock_hz_ = 1e9;  // Modelled: a CPU has no tiles; a cycle is a nanosecond.
  return target;
}

bool operator==(const Target& a, const Target& b) {
  return a.type_ == b.type_ && a.version_ == b.version_ && a.num_ipus_ == b.num_ipus_ &&
         a.tiles_per_ipu_ == b.tiles_per_ipu_ && a.workers_ == b.workers_ && a.bytes_per_tile_ == b.bytes_per_tile_ &&
         a.exchange_bytes_per_cycle_ == b.exchange_bytes_per_cycle_ &&
         a.memcpy_bytes_per_cycle_ == b.memcpy_bytes_per_cycle_ && a.sync_cycles_ == b.sync_cycles_ &&
         a.link_sync_cycles_ == b.link_sync_cycles_ && a.clock_hz_ == b.clock_hz_;
}

const Target& Device::getTarget() const {
  if (target_.getNumIPUs() == 0) {
    throw poplar_error("Device::getTarget: this device is empty. Assign it one of IPUModel or DeviceManager.");
  }
  return target_;
}

Device Device::createVirtualDevice(unsigned tilesPerIPU) const {
  if (tilesPerIPU == 0 || tilesPerIPU > getTarget().getTilesPerIPU()) {
    throw poplar_error("Device::createVirtualDevice: an IPU of this device has from 1 to " +
                       std::to_string(getTarget().getTilesPerIPU()) +
                       " tiles. Received: " + std::to_string(tilesPerIPU) + ".");
  }
  Device device = *this;
  device.target_.tiles_per_ipu_ = tilesPerIPU;
  return device;
}

IPUModel::IPUModel(const char* version) : IPUVersion(version) {
  for (const Chip& chip : kChips) {
    if (IPUVersion != chip.version) continue;
    tilesPerIPU = chip.tiles;
    memoryBytesPerTile = chip.tile_bytes;
    tileClockFrequency = chip.clock_hz;
    minIPUSyncDelay = chip.sync_cycles;
    return;
  }
  throw invalid_machine_model("IPUModel: the versions are \"ipu1\" and \"ipu2\". Received: \"" + IPUVersion + "\".");
}

Device IPUModel::createDevice(const OptionFlags&, bool, unsigned id) const {
  const std::pair<const char*, double> numbers[] = {{"numIPUs", numIPUs},
                                                    {"tilesPerIPU", tilesPerIPU},
                                                    {"numWorkerContexts", numWorkerContexts},
                                                    {"memoryBytesPerTile", memoryBytesPerTile},
                                                    {"exchangeBytesPerCycle", exchangeBytesPerCycle},
                                                    {"tileClockFrequency", tileClockFrequency}};
  for (const auto& [name, number] : numbers) {
    if (number >= 1) continue;
    throw invalid_machine_model(std::string("IPUModel: ") + name +
                                " must be at least 1. Received: " + std::to_string(static_cast<long>(number)) + ".");
  }
  Device device;
  device.id_ = id;
  device.target_.type_ = TargetType::IPU_MODEL;
  device.target_.version_ = IPUVersion;
  device.target_.num_ipus_ = numIPUs;
  device.target_.tiles_per_ipu_ = tilesPerIPU;
  device.target_.workers_ = numWorkerContexts;
  device.target_.bytes_per_tile_ = memoryBytesPerTile;
  device.target_.exchange_bytes_per_cycle_ = exchangeBytesPerCycle;
  device.target_.memcpy_bytes_per_cycle_ = memcpyBytesPerCycle;
  device.target_.sync_cycles_ = minIPUSyncDelay;
  device.target_.link_sync_cycles_ = globalSyncCycles;
  device.target_.clock_hz_ = tileClockFrequency;
  return device;
}

std::vector<Device> DeviceManager::getDevices(const OptionFlags&) const {
  std::vector<Device> devices;
  for (unsigned ipus = 1; ipus <= kMostIpus; ipus *= 2) {
    Device device;
    device.id_ = static_cast<unsigned>(devices.size());
    device.target_ = Target::createIPUTarget(ipus, "ipu2");
    devices.push_back(device);
  }
  return devices;
}

std::vector<Device> DeviceManager::getDevices(TargetType type, unsigned numIPUs, const OptionFlags& options) const {
  if (type == TargetType::CPU) {
    Device device;
    device.target_ = Target::createCPUTarget(false, numIPUs);
    return {device};
  }
  if (type == TargetType::IPU_MODEL) {
    IPUModel model;
    model.numIPUs = numIPUs;
    return {model.createDevice()};
  }
  if (!IsPowerOfTwo(numIPUs) || numIPUs > kMostIpus) return {};
  std::vector<Device> found;
  for (const Device& device : getDevices(options)) {
    if (device.getTarget().getNumIPUs() == numIPUs) found.push_back(device);
  }
  return found;
}

Device DeviceManager::getDevice(unsigned id, const OptionFlags& options) const {
  const std::vector<Device> devices = getDevices(options);
  if (id >= devices.size()) {
    throw poplar_error("DeviceManager::getDevice: there are devices 0 to " + std::to_string(devices.size() - 1) +
                       ". Received: " + std::to_string(id) + ".");
  }
  return devices[id];
}

Device DeviceManager::acquireAvailableDevice(unsigned numIPUs, const OptionFlags& options) const {
  const std::vector<Device> devices = getDevices(TargetType::IPU, numIPUs, options);
  if (devices.empty()) {
    throw poplar_error("DeviceManager::acquireAvailableDevice: devices have 1, 2, 4, ... 64 IPUs. Received: " +
                       std::to_string(numIPUs) + ".");
  }
  return devices.front();
}

}  // namespace ipu_tf
}  // namespace poplar
