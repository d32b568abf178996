// Programs that print the bytes of their results, which test_popops.py computes with NumPy.
#ifndef IPU_TF_TESTS_POPLAR_RESULTS_H_
#define IPU_TF_TESTS_POPLAR_RESULTS_H_

#include <cstdint>
#include <cstdio>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/exceptions.hpp>
#include <string>
#include <utility>
#include <vector>

#include "check.h"

inline poplar::Device SmallDevice() {
  poplar::IPUModel model;
  model.tilesPerIPU = 4;
  return model.createDevice();
}

class Test {
 public:
  explicit Test(const poplar::Device& device) : device_(device), graph(device) { popops::addCodelets(graph); }

  poplar::Tensor Variable(const poplar::Type& type, const std::vector<std::size_t>& shape,
                          const std::vector<double>& values) {
    const poplar::Tensor tensor = graph.addVariable(type, shape, "x");
    poputil::mapTensorLinearly(graph, tensor, 4, 1);
    graph.setInitialValue(tensor, values);
    return tensor;
  }
  poplar::Tensor Copied(const poplar::Tensor& tensor) {
    const poplar::Tensor copy = graph.clone(tensor);
    prog.add(poplar::program::Copy(tensor, copy));
    return copy;
  }
  void Show(const std::string& name, const poplar::Tensor& tensor) {
    graph.createHostRead(name, tensor);
    results_.emplace_back(name, tensor);
  }
  void Run() {
    poplar::Engine engine(graph, prog);
    engine.loadAndRun(device_);
    for (const auto& [name, tensor] : results_) {
      std::vector<std::uint8_t> bytes(tensor.numElements() * graph.getTarget().getTypeSize(tensor.elementType()));
      engine.readTensor(name, bytes.data(), bytes.data() + bytes.size());
      std::printf("%s %s ", name.c_str(), tensor.elementType().toString().c_str());
      for (const std::uint8_t one : bytes) std::printf("%02x", one);
      std::printf("\n");
    }
  }

 private:
  poplar::Device device_;
  std::vector<std::pair<std::string, poplar::Tensor>> results_;

 public:
  poplar::Graph graph;
  poplar::program::Sequence prog;
};

// The message of an error.
template <typename Work>
inline void Refused(const Work& work, const std::string& words) {
  try {
    work();
  } catch (const poputil::poplibs_error& error) {
    if (std::string(error.what()).find(words) != std::string::npos) return;
    std::cerr << error.what() << "\n";
  }
  std::cerr << "not refused with: " << words << "\n";
  std::exit(1);
}

#endif  // IPU_TF_TESTS_POPLAR_RESULTS_H_
