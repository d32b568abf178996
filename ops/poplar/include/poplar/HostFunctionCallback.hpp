// Functions of the host that a program calls.
#ifndef IPU_TF_POPLAR_HOST_FUNCTION_CALLBACK_HPP_
#define IPU_TF_POPLAR_HOST_FUNCTION_CALLBACK_HPP_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <poplar/ArrayRef.hpp>

namespace poplar {
inline namespace ipu_tf {

class HostCallback {
 public:
  virtual ~HostCallback() = default;
  // The memory of the arguments is valid until the call returns.
  virtual void operator()(ArrayRef<const void*> inputs, ArrayRef<void*> outputs) = 0;
};

// A callback of any kind: a function of inputs and outputs, or a HostCallback.
class HostCallbackHandle {
 public:
  template <typename F, std::enable_if_t<std::is_invocable<F&, ArrayRef<const void*>, ArrayRef<void*>>::value, int> = 0>
  HostCallbackHandle(F function) : callback_(std::make_shared<OfFunction>(std::move(function))) {}
  template <typename C, std::enable_if_t<std::is_base_of<HostCallback, C>::value, int> = 0>
  HostCallbackHandle(std::unique_ptr<C> callback) : callback_(std::move(callback)) {}

  void call(ArrayRef<const void*> inputs, ArrayRef<void*> outputs) const { (*callback_)(inputs, outputs); }

 private:
  struct OfFunction : HostCallback {
    explicit OfFunction(std::function<void(ArrayRef<const void*>, ArrayRef<void*>)> f) : function(std::move(f)) {}
    void operator()(ArrayRef<const void*> inputs, ArrayRef<void*> outputs) override { function(inputs, outputs); }
    std::function<void(ArrayRef<const void*>, ArrayRef<void*>)> function;
  };

  std::shared_ptr<HostCallback> callback_;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_HOST_FUNCTION_CALLBACK_HPP_
