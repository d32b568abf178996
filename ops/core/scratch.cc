#include "scratch.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace ipu_tf {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kGranuleBytes = size_t{1} << 14;
constexpr size_t kKeptBytes = size_t{512} << 20;  // Idle buffers beyond this go back to the system.

// Idle buffers by size. Never destroyed: kernels may still run while the process exits.
class Pool {
 public:
  float* Take(size_t wanted, size_t* bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = idle_.lower_bound(wanted);
      if (found != idle_.end() && found->first <= 2 * wanted) {
        float* data = found->second;
        *bytes = found->first;
        kept_bytes_ -= found->first;
        idle_.erase(found);
        return data;
      }
    }
    *bytes = wanted;
    void* data = std::aligned_alloc(kAlignment, wanted);
    if (data == nullptr) throw std::bad_alloc();
    return static_cast<float*>(data);
  }

  void Give(float* data, size_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (kept_bytes_ + bytes <= kKeptBytes) {
        kept_bytes_ += bytes;
        idle_.emplace(bytes, data);
        return;
      }
    }
    std::free(data);
  }

 private:
  std::mutex mutex_;
  std::multimap<size_t, float*> idle_;
  size_t kept_bytes_ = 0;
};

Pool& ThePool() {
  static Pool* pool = new Pool;
  return *pool;
}

// The last buffers that a thread gave back. They are still in the cache of its processor, where another thread's
// would have to be fetched from the cache of another.
class Recent {
 public:
  ~Recent() {
    for (const Buffer& buffer : buffers_) {
      if (buffer.data != nullptr) ThePool().Give(buffer.data, buffer.bytes);
    }
  }

  float* Take(size_t wanted, size_t* bytes) {
    for (Buffer& buffer : buffers_) {
      if (buffer.data == nullptr || buffer.bytes < wanted || buffer.bytes > 2 * wanted) continue;
      *bytes = buffer.bytes;
      return std::exchange(buffer.data, nullptr);
    }
    return ThePool().Take(wanted, bytes);
  }

  void Give(float* data, size_t bytes) {
    if (bytes > kRecentBytes) return ThePool().Give(data, bytes);
    Buffer& oldest = buffers_[next_++ % kRecentBuffers];
    if (oldest.data != nullptr) ThePool().Give(oldest.data, oldest.bytes);
    oldest = {data, bytes};
  }

 private:
  static constexpr size_t kRecentBytes = size_t{1} << 20;
  static constexpr size_t kRecentBuffers = 4;

  struct Buffer {
    float* data = nullptr;
    size_t bytes = 0;
  };
  Buffer buffers_[kRecentBuffers];
  size_t next_ = 0;
};

Recent& RecentOfThread() {
  thread_local Recent recent;
  return recent;
}

}  // namespace

Scratch::Scratch(int64_t floats) {
  if (floats <= 0) return;
  const size_t wanted = static_cast<size_t>(floats) * sizeof(float);
  data_ = RecentOfThread().Take((wanted + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes, &bytes_);
}

Scratch::~Scratch() {
  if (data_ != nullptr) RecentOfThread().Give(data_, bytes_);
}

Scratch::Scratch(Scratch&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace ipu_tf
