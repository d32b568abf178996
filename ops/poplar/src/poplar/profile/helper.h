// The process that models cycles and memory: the Python package, without TensorFlow.
#ifndef IPU_TF_POPLAR_HELPER_H_
#define IPU_TF_POPLAR_HELPER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// Arrays by name, as bytes; the helper knows their types.
class Records {
 public:
  template <typename T>
  void Add(const std::string& name, const std::vector<T>& values) {
    AddBytes(name, values.data(), values.size() * sizeof(T));
  }
  void AddText(const std::string& name, const std::string& text) { AddBytes(name, text.data(), text.size()); }
  std::uint32_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void AddBytes(const std::string& name, const void* data, std::size_t size);

  std::uint32_t count_ = 0;
  std::string bytes_;
};

class Helper {
 public:
  // Raises poplar_error: the package, or its Python, is missing.
  Helper();
  Helper(const Helper&) = delete;
  ~Helper();

  // The helper of this process, started at its first use.
  static std::shared_ptr<Helper> Shared();

  // Returns the answer; raises poplar_error with the helper's words if it refuses.
  std::string Ask(const std::string& request, const Records& records = {});

 private:
  void Send(const std::string& bytes);
  std::string Receive(std::size_t size);
  [[noreturn]] void Ended();

  std::mutex mutex_;
  int socket_ = -1;
  pid_t process_ = -1;
  std::string python_;
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_HELPER_H_
