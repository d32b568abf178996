// What a library of compiled codelets exports for each class: whether it has compute(), and a function that calls it.
#ifndef IPU_TF_POPLAR_DEVICE_CALLERS_H_
#define IPU_TF_POPLAR_DEVICE_CALLERS_H_

#include <poplar/Vertex.hpp>
#include <type_traits>

namespace ipu_tf_codelets {
template <class V>
constexpr auto Has(int) -> decltype((void)static_cast<V*>(nullptr)->V::compute(), true) {
  return true;
}
template <class V>
constexpr auto Has(long) -> decltype((void)static_cast<V*>(nullptr)->V::compute(0u), true) {
  return true;
}
template <class V>
constexpr bool Has(...) {
  return false;
}
// In a build that counts issue slots, in r15: those of the worker with most of them.
struct Busiest {
#ifdef IPU_TF_COUNTED
  unsigned long most = 0;
  void Next() {
    unsigned long slots;
    asm volatile("movq %%r15, %0" : "=r"(slots) : : "memory");
    if (slots > most) most = slots;
    asm volatile("xorq %%r15, %%r15" : : : "memory", "cc");
  }
  ~Busiest() { asm volatile("movq %0, %%r15" : : "r"(most) : "memory"); }
#else
  void Next() {}
#endif
};
// What a call of compute() returns; true if that is nothing.
template <class Compute>
bool Status(const Compute& compute) {
  if constexpr (std::is_void<decltype(compute())>::value) {
    compute();
    return true;
  } else {
    return static_cast<bool>(compute());
  }
}
// Calls a function for each worker; whether all calls return true, or nothing.
template <class Compute>
bool AllWorkers(const Compute& compute) {
  Busiest busiest;
  bool status = true;
  for (unsigned worker = 0; worker < 6; ++worker) {
    ipu_tf_device::worker = worker;
    status &= Status([&] { return compute(worker); });
    busiest.Next();
  }
  ipu_tf_device::worker = 0;
  return status;
}
template <class V>
auto Call(V* v, int) -> decltype((void)v->V::compute(), true) {
  if constexpr (V::ipu_tf_kind == 1) {
    return AllWorkers([&](unsigned) { return v->V::compute(); });
  } else {
    return Status([&] { return v->V::compute(); });
  }
}
template <class V>
auto Call(V* v, long) -> decltype((void)v->V::compute(0u), true) {
  return AllWorkers([&](unsigned worker) { return v->V::compute(worker); });
}
template <class V>
bool Compute(void* state) {
  return Call(static_cast<V*>(state), 0);
}
template <class V>
constexpr auto Caller() {
  if constexpr (Has<V>(0)) {
    return &Compute<V>;
  } else {
    return static_cast<bool (*)(void*)>(nullptr);
  }
}
}  // namespace ipu_tf_codelets

#endif  // IPU_TF_POPLAR_DEVICE_CALLERS_H_
