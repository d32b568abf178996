// Variables that the host reads, and engines that were files.
#ifndef IPU_TF_TESTS_POPLAR_ENGINES_H_
#define IPU_TF_TESTS_POPLAR_ENGINES_H_

#include <poplar/Engine.hpp>
#include <poputil/TileMapping.hpp>
#include <sstream>
#include <string>
#include <vector>

template <typename T>
std::vector<T> Read(poplar::Engine& engine, const std::string& handle, std::size_t size) {
  std::vector<T> values(size);
  engine.readTensor(handle, values.data(), values.data() + size);
  return values;
}

inline poplar::Tensor Variable(poplar::Graph& graph, poplar::Type type, std::vector<std::size_t> shape,
                               const std::string& name) {
  poplar::Tensor tensor = graph.addVariable(type, shape, name);
  poputil::mapTensorLinearly(graph, tensor, 1, 1);
  graph.createHostRead(name, tensor);
  return tensor;
}

// An engine of an executable that was a file in between.
inline poplar::Engine Stored(const poplar::Graph& graph, const std::vector<poplar::program::Program>& programs,
                             const poplar::OptionFlags& options = {}) {
  std::stringstream file;
  compileGraph(graph, programs).serialize(file);
  return poplar::Engine(poplar::Executable::deserialize(file), options);
}

#endif  // IPU_TF_TESTS_POPLAR_ENGINES_H_
