// The custom call by which a program that XLA compiled for the CPU runs a TensorFlow kernel.
#ifndef IPU_TF_OPS_XLA_HOST_CALL_H_
#define IPU_TF_OPS_XLA_HOST_CALL_H_

namespace ipu_tf {

// Target of the call: runs the CPU kernel of one node on its operands, into its results.
inline constexpr char kHostCallTarget[] = "ipu_tf_host_call";

// Attribute of the call: the node (name, op, attributes) as a text NodeDef.
inline constexpr char kHostCallNode[] = "node";

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_XLA_HOST_CALL_H_
