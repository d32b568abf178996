// What Python and the kernel of TensorFlow call: C functions, so that neither is built with Poplar's headers.
#ifndef IPU_TF_POPLAR_USER_OP_INTERFACE_H_
#define IPU_TF_POPLAR_USER_OP_INTERFACE_H_

#include <cstdint>

extern "C" {

// A custom op for given shapes; texts are not kept.
struct ipu_tf_user_op_request {
  const char* library;
  const char* codelets;
  const char* name;
  const char* label;
  const char* attributes;
  std::int32_t is_gradient;
  std::int32_t forward_outputs;
  std::int32_t gradient_of;
  std::int32_t inputs;
  std::int32_t outputs;
  // Of the inputs, then of the outputs.
  const char* const* types;
  const std::int32_t* ranks;
  const std::int64_t* sizes;  // Of all dimensions, tensor after tensor.
  const char* version;
  std::int32_t tiles;
  std::int32_t workers;
  std::int32_t tile_bytes;
  std::int32_t exchange_bytes_per_cycle;
  std::int32_t sync_cycles;
  double clock_hz;
};

// Of functions that fail: 0, or null; `error` then has the reason until this thread's next call.
int ipu_tf_user_op_check(const char* library, const char* name, std::int32_t inputs, std::int32_t* is_stateless,
                         const char** error);
void* ipu_tf_user_op_make(const ipu_tf_user_op_request* request, std::int32_t* has_output, const char** error);
int ipu_tf_user_op_run(void* op, const void* const* inputs, void* const* outputs, const char** error);
// The graph, as the model of cycles and memory reads it; valid until this thread's next call.
const char* ipu_tf_user_op_records(void* op, std::int64_t* size, const char** error);

}  // extern "C"

#endif  // IPU_TF_POPLAR_USER_OP_INTERFACE_H_
