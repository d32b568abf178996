// The errors that graphs and engines raise.
#ifndef IPU_TF_POPLAR_EXCEPTIONS_HPP_
#define IPU_TF_POPLAR_EXCEPTIONS_HPP_

#include <stdexcept>
#include <string>

namespace poplar {
inline namespace ipu_tf {

// All errors of a program for the machine.
struct poplar_error : std::runtime_error {
  explicit poplar_error(const std::string& message, const std::string& type = "poplar_error")
      : std::runtime_error(message), type(type) {}
  // The name of the class.
  std::string type;
};

#define IPU_TF_POPLAR_ERROR(NAME, BASE)                                                                 \
  struct NAME : BASE {                                                                                  \
    explicit NAME(const std::string& message, const std::string& type = #NAME) : BASE(message, type) {} \
  }

// The program, or a call of the API, is wrong.
IPU_TF_POPLAR_ERROR(application_runtime_error, poplar_error);
IPU_TF_POPLAR_ERROR(control_program_error, poplar_error);
IPU_TF_POPLAR_ERROR(file_load_error, poplar_error);
IPU_TF_POPLAR_ERROR(graph_connection_error, poplar_error);
IPU_TF_POPLAR_ERROR(graph_cycle_error, poplar_error);
IPU_TF_POPLAR_ERROR(graph_memory_allocation_error, poplar_error);
IPU_TF_POPLAR_ERROR(graph_object_creation_error, poplar_error);
IPU_TF_POPLAR_ERROR(graph_object_load_error, poplar_error);
IPU_TF_POPLAR_ERROR(graph_program_compilation_error, poplar_error);
IPU_TF_POPLAR_ERROR(graph_replication_error, poplar_error);
IPU_TF_POPLAR_ERROR(index_error, poplar_error);
IPU_TF_POPLAR_ERROR(invalid_machine_model, poplar_error);
IPU_TF_POPLAR_ERROR(invalid_option, poplar_error);
IPU_TF_POPLAR_ERROR(invalid_tile_mapping, poplar_error);
IPU_TF_POPLAR_ERROR(link_error, poplar_error);
IPU_TF_POPLAR_ERROR(parse_error, poplar_error);
IPU_TF_POPLAR_ERROR(stream_connection_error, poplar_error);
IPU_TF_POPLAR_ERROR(stream_memory_allocation_error, poplar_error);
IPU_TF_POPLAR_ERROR(tensor_creation_error, poplar_error);
IPU_TF_POPLAR_ERROR(tensor_io_state_error, poplar_error);
IPU_TF_POPLAR_ERROR(type_error, poplar_error);
IPU_TF_POPLAR_ERROR(unknown_field, poplar_error);
IPU_TF_POPLAR_ERROR(unknown_vertex_type, poplar_error);

// The machine cannot go on. This one raises none of them: its devices do not fail.
IPU_TF_POPLAR_ERROR(runtime_error, poplar_error);
IPU_TF_POPLAR_ERROR(system_runtime_error, runtime_error);
IPU_TF_POPLAR_ERROR(unknown_runtime_error, system_runtime_error);
IPU_TF_POPLAR_ERROR(unrecoverable_runtime_error, system_runtime_error);

#undef IPU_TF_POPLAR_ERROR

// What makes a device usable again.
enum class RecoveryAction { IPU_RESET, PARTITION_RESET, FULL_RESET };

inline std::string toString(RecoveryAction action) {
  if (action == RecoveryAction::IPU_RESET) return "IPU_RESET";
  return action == RecoveryAction::PARTITION_RESET ? "PARTITION_RESET" : "FULL_RESET";
}

struct recoverable_runtime_error : system_runtime_error {
  explicit recoverable_runtime_error(RecoveryAction action, const std::string& message,
                                     const std::string& type = "recoverable_runtime_error")
      : system_runtime_error(message, type), action_(action) {}
  RecoveryAction getRecoveryAction() const { return action_; }

 private:
  RecoveryAction action_;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_EXCEPTIONS_HPP_
