// Functions of the host that fill or read the buffer of a stream.
#ifndef IPU_TF_POPLAR_STREAM_CALLBACK_HPP_
#define IPU_TF_POPLAR_STREAM_CALLBACK_HPP_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace poplar {
inline namespace ipu_tf {

class StreamCallback {
 public:
  enum class Result { Success, NotAvailable };

  virtual ~StreamCallback() = default;
  // Called only if data may be asked for ahead of time, which this machine does not.
  virtual Result prefetch(void* __restrict p) {
    (void)p;
    return Result::NotAvailable;
  }
  virtual void fetch(void* __restrict p) = 0;
  // The data of the last fetch were read.
  virtual void complete() {}
  virtual void invalidatePrefetched() {}
};

using LegacyStreamCallback = StreamCallback;

// A callback of any kind: a function of the buffer, or an object with the methods of StreamCallback.
class StreamCallbackHandle {
 public:
  template <typename F, std::enable_if_t<std::is_invocable<F&, void*>::value, int> = 0>
  StreamCallbackHandle(F function) : callback_(std::make_shared<OfFunction>(std::move(function))) {}
  template <typename C, std::enable_if_t<std::is_base_of<StreamCallback, C>::value, int> = 0>
  StreamCallbackHandle(std::unique_ptr<C> callback) : callback_(std::move(callback)) {}

  StreamCallback* operator->() const { return callback_.get(); }
  explicit operator bool() const { return callback_ != nullptr; }

 private:
  struct OfFunction : StreamCallback {
    explicit OfFunction(std::function<void(void*)> f) : function(std::move(f)) {}
    void fetch(void* __restrict p) override { function(p); }
    std::function<void(void*)> function;
  };

  std::shared_ptr<StreamCallback> callback_;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_STREAM_CALLBACK_HPP_
