#include "interface.h"

#include <exception>
#include <string>

#include "user_op.h"

namespace {

namespace user_op = poplar::user_op;

thread_local std::string text;

// Runs work; what it raises becomes the reason of the failure.
template <typename Work>
bool Succeeds(const char** error, const Work& work) {
  try {
    work();
    return true;
  } catch (const std::exception& raised) {
    text = raised.what();
  } catch (...) {
    text = "it raised what is no std::exception.";
  }
  *error = text.c_str();
  return false;
}

poplar::Type TypeOf(const std::string& name) {
  static const std::pair<const char*, poplar::Type> types[] = {
      {"bool", poplar::BOOL},           {"int8", poplar::SIGNED_CHAR},      {"uint8", poplar::UNSIGNED_CHAR},
      {"int16", poplar::SHORT},         {"uint16", poplar::UNSIGNED_SHORT}, {"int32", poplar::INT},
      {"uint32", poplar::UNSIGNED_INT}, {"float16", poplar::HALF},          {"float32", poplar::FLOAT}};
  for (const auto& [known, type] : types) {
    if (name == known) return type;
  }
  throw user_op::Error("Poplar has no type for " + name + ".");
}

user_op::Request RequestOf(const ipu_tf_user_op_request& given) {
  user_op::Request request;
  request.library = given.library;
  request.codelets = given.codelets;
  request.name = given.name;
  request.label = given.label;
  request.attributes = given.attributes;
  request.is_gradient = given.is_gradient != 0;
  request.forward_outputs = static_cast<std::size_t>(given.forward_outputs);
  request.gradient_of = given.gradient_of;
  const std::int64_t* size = given.sizes;
  for (int i = 0; i < given.inputs + given.outputs; ++i) {
    user_op::TensorSpec spec{TypeOf(given.types[i]), {}};
    for (int dimension = 0; dimension < given.ranks[i]; ++dimension) {
      spec.shape.push_back(static_cast<std::size_t>(*size++));
    }
    (i < given.inputs ? request.inputs : request.outputs).push_back(std::move(spec));
  }
  poplar::IPUModel machine(given.version);
  machine.tilesPerIPU = static_cast<unsigned>(given.tiles);
  machine.numWorkerContexts = static_cast<unsigned>(given.workers);
  machine.memoryBytesPerTile = static_cast<unsigned>(given.tile_bytes);
  machine.exchangeBytesPerCycle = static_cast<unsigned>(given.exchange_bytes_per_cycle);
  machine.minIPUSyncDelay = static_cast<unsigned>(given.sync_cycles);
  machine.tileClockFrequency = given.clock_hz;
  request.machine = machine;
  return request;
}

}  // namespace

extern "C" {

int ipu_tf_user_op_check(const char* library, const char* name, std::int32_t inputs, std::int32_t* is_stateless,
                         const char** error) {
  return Succeeds(error, [&] {
    const user_op::Functions functions(library, name);
    *is_stateless = functions.MetadataOf(static_cast<std::uint32_t>(inputs)).is_stateless ? 1 : 0;
  });
}

void* ipu_tf_user_op_make(const ipu_tf_user_op_request* request, std::int32_t* has_output, const char** error) {
  user_op::UserOp* op = nullptr;
  Succeeds(error, [&] {
    op = new user_op::UserOp(RequestOf(*request));  // Programs may call it for as long as the process lives.
    for (const bool has : op->has_output()) *has_output++ = has ? 1 : 0;
  });
  return op;
}

int ipu_tf_user_op_run(void* op, const void* const* inputs, void* const* outputs, const char** error) {
  return Succeeds(error, [&] { static_cast<user_op::UserOp*>(op)->Run(inputs, outputs); });
}

const char* ipu_tf_user_op_records(void* op, std::int64_t* size, const char** error) {
  if (!Succeeds(error, [&] { text = static_cast<user_op::UserOp*>(op)->GraphRecords(); })) return nullptr;
  *size = static_cast<std::int64_t>(text.size());
  return text.data();
}

}  // extern "C"
