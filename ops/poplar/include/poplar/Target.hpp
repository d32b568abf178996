// What a graph is built for.
#ifndef IPU_TF_POPLAR_TARGET_HPP_
#define IPU_TF_POPLAR_TARGET_HPP_

#include <cstddef>
#include <cstdint>
#include <string>

#include <poplar/OptionFlags.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/TargetType.hpp>
#include <poplar/Type.hpp>

namespace poplar {
inline namespace ipu_tf {

namespace detail {
struct TargetFile;
struct TargetAccess;
}  // namespace detail

class Target {
 public:
  Target() = default;

  TargetType getTargetType() const { return type_; }
  unsigned getNumIPUs() const { return num_ipus_; }
  unsigned getTilesPerIPU() const { return tiles_per_ipu_; }
  // Of all IPUs.
  unsigned getNumTiles() const { return num_ipus_ * tiles_per_ipu_; }
  unsigned getNumWorkerContexts() const { return workers_; }
  unsigned getBytesPerTile() const { return bytes_per_tile_; }
  std::uint64_t getMemoryBytes() const { return std::uint64_t{bytes_per_tile_} * getNumTiles(); }
  double getTileClockFrequency() const { return clock_hz_; }
  unsigned getExchangeBytesPerCycle() const { return exchange_bytes_per_cycle_; }
  // Of a copy within a tile.
  unsigned getMemcpyBytesPerCycle() const { return memcpy_bytes_per_cycle_; }
  // Cycles of a sync of the tiles of an IPU.
  unsigned getMinIPUSyncDelay() const { return sync_cycles_; }
  // Cycles that a sync of several IPUs takes besides; 0 where the model of the links says.
  unsigned getGlobalSyncCycles() const { return link_sync_cycles_; }
  // Bits of the data path of a tile.
  unsigned getDataPathWidth() const { return 64; }
  // Bytes of an element in tile memory.
  std::size_t getTypeSize(const Type& type) const;
  // Elements of a type in the data path.
  unsigned getVectorWidth(const Type& type) const;
  unsigned getFloatVectorWidth() const { return 2; }
  unsigned getHalfVectorWidth() const { return 4; }
  // Columns of the matrix unit for these types; 0 for types that it does not take.
  unsigned getNumConvUnits(const Type& activations, const Type& partials) const;
  // "ipu1", "ipu2" or "cpu".
  const std::string& getTargetArchString() const { return version_; }
  const std::string& getTargetSystemString() const { return version_; }

  // A target of the machine, without a device of it: of "ipu1" or "ipu2", or of a system such as "IPU-POD16".
  static Target createIPUTarget(unsigned numIPUs, StringRef system, const OptionFlags& options = {});
  static Target createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, StringRef system,
                                const OptionFlags& options = {});
  // One tile with one worker and no rules of tiles.
  static Target createCPUTarget(bool accurateHalf = false, unsigned numIPUs = 1);

  friend bool operator==(const Target& a, const Target& b);
  friend bool operator!=(const Target& a, const Target& b) { return !(a == b); }

 private:
  friend class IPUModel;
  friend class Device;
  friend class Graph;
  friend struct detail::TargetFile;
  friend struct detail::TargetAccess;

  TargetType type_ = TargetType::IPU;
  std::string version_;
  unsigned num_ipus_ = 0;
  unsigned tiles_per_ipu_ = 0;
  unsigned workers_ = 0;
  unsigned bytes_per_tile_ = 0;
  unsigned exchange_bytes_per_cycle_ = 0;
  unsigned memcpy_bytes_per_cycle_ = 0;
  unsigned sync_cycles_ = 0;
  unsigned link_sync_cycles_ = 0;
  double clock_hz_ = 0;
};

// The version of the vendor's API whose names are here: "3.3.0".
std::string versionString();

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_TARGET_HPP_
