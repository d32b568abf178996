// Tensors as bytes, for functions of Python.
#pragma once

#include <cstdint>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace ipu_tf {

// A TensorProto for each tensor, behind its size in 8 bytes.
inline std::string Serialized(const tensorflow::OpInputList& tensors) {
  std::string all;
  for (int i = 0; i < tensors.size(); ++i) {
    tensorflow::TensorProto proto;
    tensors[i].AsProtoTensorContent(&proto);
    const std::string plain = proto.SerializeAsString();
    const int64_t size = plain.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size);
    all.append(plain);
  }
  return all;
}

}  // namespace ipu_tf
