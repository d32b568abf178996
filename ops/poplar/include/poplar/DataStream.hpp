// Streams between host and device.
#ifndef IPU_TF_POPLAR_DATA_STREAM_HPP_
#define IPU_TF_POPLAR_DATA_STREAM_HPP_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <poplar/Type.hpp>

namespace poplar {
inline namespace ipu_tf {

enum class ReplicatedStreamMode { REPLICATE, BROADCAST };

class DataStream {
 public:
  DataStream() = default;
  DataStream(std::uint32_t id, std::string handle, Type type, std::size_t elements, bool to_device)
      : id_(id), handle_(std::move(handle)), type_(type), elements_(elements), to_device_(to_device) {}

  std::uint32_t getId() const { return id_; }
  const std::string& handle() const { return handle_; }
  std::size_t numElements() const { return elements_; }
  Type elementType() const { return type_; }
  bool isHostToDevice() const { return to_device_; }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
  std::string handle_;
  Type type_;
  std::size_t elements_ = 0;
  bool to_device_ = false;
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
