// Streams between host and device.
#ifndef IPU_TF_POPLAR_DATA_STREAM_HPP_
#define IPU_TF_POPLAR_DATA_STREAM_HPP_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <poplar/ReplicatedStreamMode.hpp>
#include <poplar/Type.hpp>

namespace poplar {
inline namespace ipu_tf {

class DataStream {
 public:
  DataStream() = default;
  DataStream(std::uint32_t id, std::string handle, Type type, std::size_t elements, bool to_device,
             ReplicatedStreamMode mode = ReplicatedStreamMode::REPLICATE)
      : id_(id), handle_(std::move(handle)), type_(type), elements_(elements), to_device_(to_device), mode_(mode) {}

  std::uint32_t getId() const { return id_; }
  const std::string& handle() const { return handle_; }
  std::size_t numElements() const { return elements_; }
  Type elementType() const { return type_; }
  bool isHostToDevice() const { return to_device_; }
  ReplicatedStreamMode replicatedMode() const { return mode_; }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
  std::string handle_;
  Type type_;
  std::size_t elements_ = 0;
  bool to_device_ = false;
  ReplicatedStreamMode mode_ = ReplicatedStreamMode::REPLICATE;
};

// Rows of streaming memory.
class RemoteBuffer {
 public:
  RemoteBuffer() = default;
  RemoteBuffer(std::uint32_t id, std::string handle, Type type, std::size_t elements, std::size_t repeats)
      : id_(id), handle_(std::move(handle)), type_(type), elements_(elements), repeats_(repeats) {}

  std::uint32_t getId() const { return id_; }
  const std::string& handle() const { return handle_; }
  std::size_t numElements() const { return elements_; }
  std::size_t getRepeats() const { return repeats_; }
  Type elementType() const { return type_; }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
  std::string handle_;
  Type type_;
  std::size_t elements_ = 0;
  std::size_t repeats_ = 0;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_DATA_STREAM_HPP_
