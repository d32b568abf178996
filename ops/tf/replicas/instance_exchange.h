// What the replicas of this process get from those of the other instances of a job.
#ifndef IPU_TF_OPS_TF_REPLICAS_INSTANCE_EXCHANGE_H_
#define IPU_TF_OPS_TF_REPLICAS_INSTANCE_EXCHANGE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "replica_group.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipu_tf {

// A part of a collective, as Python sees it (runtime/replicas/instance_exchange.py).
struct InstanceExchange {
  const char* site;       // The name of the place in the program.
  const char* kind;       // The opcode of HLO.
  const char* reduction;  // "" where values are gathered.
  const char* dtype;      // The type of the elements.
  const char* shape;      // The shape of a replica's value.
  int64_t first;          // The number of this process's first replica in the group.
  int64_t count;          // Replicas of this process.
  int64_t group;          // Replicas of the group.
  const char* input;
  int64_t input_bytes;
  char* output;
  int64_t output_bytes;
  char* error;  // Room for a message.
  int64_t error_bytes;
};

// Gives `output` the reduced value of a group, or all its values, from what its replicas here have made of theirs.
absl::Status ExchangeWithInstances(const Collective& collective, const std::string& dtype,
                                   const tensorflow::Tensor& value, int64_t first, int64_t count,
                                   const std::vector<char>& input, std::vector<char>* output);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_TF_REPLICAS_INSTANCE_EXCHANGE_H_
