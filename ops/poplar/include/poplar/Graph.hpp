// Variables, vertices and where they live. Published programs find some headers of C++ here that they do not include.
#ifndef IPU_TF_POPLAR_GRAPH_HPP_
#define IPU_TF_POPLAR_GRAPH_HPP_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <poplar/ArrayRef.hpp>
#include <poplar/CodeletFileType.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Device.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/Interval.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/Target.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <poplar/VertexIntrospector.hpp>

namespace poplar {
inline namespace ipu_tf {

namespace program {
class Program;
}

namespace detail {
struct GraphState;
struct GraphAccess;

// Numbers of the host, on their way into elements of a type.
struct Values {
  bool are_floating = false;
  std::vector<double> floating;
  std::vector<std::int64_t> integral;  // Unsigned 64-bit numbers as their bits.
  std::size_t size() const { return are_floating ? floating.size() : integral.size(); }
};

template <typename T>
Values ToValues(const T* data, std::size_t size) {
  static_assert(std::is_arithmetic<T>::value || std::is_enum<T>::value, "values are numbers");
  Values values;
  values.are_floating = std::is_floating_point<T>::value;
  for (std::size_t i = 0; i < size; ++i) {
    if constexpr (std::is_floating_point<T>::value) {
      values.floating.push_back(static_cast<double>(data[i]));
    } else {
      values.integral.push_back(static_cast<std::int64_t>(data[i]));
    }
  }
  return values;
}

template <typename T>
using IfNumber = std::enable_if_t<std::is_arithmetic<T>::value || std::is_enum<T>::value, int>;
}  // namespace detail

enum class SerializationFormat { Binary, JSON };
enum class VariableMappingMethod { NONE, LINEAR };
enum class TensorCloneMethod {
  PRESERVE_ORDER_AND_ALIASES,
  CREATE_NEW_ORDER,
  PRESERVE_ORDER_UNLESS_ALIASES,
  GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES
};
enum class TensorCloneDuplicationMethod { DUPLICATE_BY_OUTER_DIMENSION, DUPLICATE_BY_TILE_CONTIGUOUS_REGION };

// How many copies of a graph run side by side, each on its share of the tiles.
class replication_factor {
 public:
  explicit constexpr replication_factor(unsigned count) : count_(count) {}
  constexpr unsigned count() const { return count_; }

 private:
  unsigned count_;
};

// What an edge or a field of a new vertex gets.
class ConnectionDesc {
 public:
  ConnectionDesc(StringRef field, Tensor tensor) : field(field), tensors{std::move(tensor)}, kind(Kind::kTensor) {}
  ConnectionDesc(StringRef field, std::vector<Tensor> list)
      : field(field), tensors(std::move(list)), kind(Kind::kList) {}
  template <typename T, detail::IfNumber<T> = 0>
  ConnectionDesc(StringRef field, T value) : field(field), kind(Kind::kNumber), values(detail::ToValues(&value, 1)) {}
  template <typename T, detail::IfNumber<T> = 0>
  ConnectionDesc(StringRef field, ArrayRef<T> list)
      : field(field), kind(Kind::kNumbers), values(detail::ToValues(list.data(), list.size())) {}

  enum class Kind { kTensor, kList, kNumber, kNumbers };
  std::string field;
  std::vector<Tensor> tensors;
  Kind kind;
  detail::Values values;
};

class Graph {
 public:
  // One list of ranges of the flattened tensor for each tile.
  using TileToTensorMapping = std::vector<std::vector<Interval>>;

  // Elements that a function of the host takes or gives.
  struct HostFunctionArgument {
    HostFunctionArgument() = default;
    HostFunctionArgument(const Type& elementType, std::size_t numElements)
        : elementType(elementType), numElements(numElements) {}
    Type elementType;
    std::size_t numElements = 0;
  };

  explicit Graph(const Target& target, replication_factor replicas = replication_factor(1));
  explicit Graph(const Device& device, replication_factor replicas = replication_factor(1));
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  const Target& getTarget() const;
  unsigned getReplicationFactor() const;
  // The tiles from `lowerTile` to the one before `upperTile`, as a graph of its own.
  Graph createVirtualGraph(unsigned lowerTile, unsigned upperTile);
  // These tiles, in this order.
  Graph createVirtualGraph(const std::vector<unsigned>& tiles);
  Graph getTopLevelGraph();

  // Variables and constants have no tile until they are mapped.
  Tensor addVariable(const Type& type, ArrayRef<std::size_t> shape, const DebugContext& debugContext = {});
  Tensor addVariable(const Type& type, ArrayRef<std::size_t> shape, VariableMappingMethod mappingMethod,
                     const DebugContext& debugContext = {});
  template <typename T>
  Tensor addConstant(const Type& type, ArrayRef<std::size_t> shape, ArrayRef<T> values,
                     const DebugContext& debugContext = {}) {
    return AddConstant(type, shape, detail::ToValues(values.data(), values.size()), debugContext);
  }
  template <typename T, typename Allocator>
  Tensor addConstant(const Type& type, ArrayRef<std::size_t> shape, const std::vector<T, Allocator>& values,
                     const DebugContext& debugContext = {}) {
    return addConstant(type, shape, ArrayRef<T>(values), debugContext);
  }
  template <typename T, detail::IfNumber<T> = 0>
  Tensor addConstant(const Type& type, ArrayRef<std::size_t> shape, const T* values,
                     const DebugContext& debugContext = {}) {
    std::size_t size = 1;
    for (const std::size_t one : shape) size *= one;
    return addConstant(type, shape, ArrayRef<T>(values, size), debugContext);
  }
  // Every element has the value.
  template <typename T, detail::IfNumber<T> = 0>
  Tensor addConstant(const Type& type, ArrayRef<std::size_t> shape, T value, const DebugContext& debugContext = {}) {
    return AddFilled(type, shape, detail::ToValues(&value, 1), debugContext);
  }
  // The bits of halves.
  Tensor addConstantHalf(const Type& type, ArrayRef<std::size_t> shape, std::uint16_t value,
                         const DebugContext& debugContext = {});
  Tensor addConstantHalf(const Type& type, ArrayRef<std::size_t> shape, const std::uint16_t* values,
                         const DebugContext& debugContext = {});
  // UNSIGNED_INT, a scalar: the number of the replica that reads it.
  Tensor addReplicationIndexConstant(const DebugContext& debugContext = {});
  // A new variable of the shape, mapped as the tensor is.
  Tensor clone(const Type& type, const Tensor& tensor, const DebugContext& debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  Tensor clone(const Tensor& tensor, const DebugContext& debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  // The clones one after the other, along the first dimension.
  Tensor cloneN(const Type& type, const Tensor& tensor, std::size_t N, const DebugContext& debugContext = {},
                TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES,
                TensorCloneDuplicationMethod duplication = TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION);
  Tensor cloneN(const Tensor& tensor, std::size_t N, const DebugContext& debugContext = {},
                TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES,
                TensorCloneDuplicationMethod duplication = TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION);
  // For each contiguous range of a variable among these ranges of the flattened tensor, the ranges that make it up, in
  // its order.
  std::vector<std::vector<Interval>> getSortedContiguousRegions(const Tensor& tensor, ArrayRef<Interval> regions,
                                                                bool removeAliasedIntervals = false) const;
  // Puts a flat tensor into the order of its variables, and the others in the same way.
  void reorderToSimplify(Tensor* tensor, ArrayRef<Tensor*> others, bool requireSimplestOrder = true) const;
  // The tensor with one element along each dimension that repeats one.
  Tensor findUnbroadcastTensor(const Tensor& tensor) const;

  void setTileMapping(VertexRef vertex, unsigned tile);
  void setTileMapping(const Tensor& tensor, unsigned tile);
  void setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping);
  TileToTensorMapping getTileMapping(const Tensor& tensor, bool requireComplete = true) const;

  ComputeSet addComputeSet(const DebugContext& debugContext = {});
  VertexRef addVertex(ComputeSet computeSet, StringRef vertexType);
  VertexRef addVertex(ComputeSet computeSet, StringRef vertexType, ArrayRef<ConnectionDesc> connections);
  void connect(FieldRef field, const Tensor& tensor);
  void connect(FieldRef field, ArrayRef<Tensor> tensors);
  // The edge reads a constant.
  template <typename T, detail::IfNumber<T> = 0>
  void connect(FieldRef field, T value) {
    ConnectValues(field, detail::ToValues(&value, 1), true);
  }
  template <typename T, detail::IfNumber<T> = 0>
  void connect(FieldRef field, ArrayRef<T> values) {
    ConnectValues(field, detail::ToValues(values.data(), values.size()), false);
  }
  // The value of a field without edge.
  template <typename T, detail::IfNumber<T> = 0>
  void setInitialValue(FieldRef field, T value) {
    SetField(field, detail::ToValues(&value, 1), true);
  }
  template <typename T, detail::IfNumber<T> = 0>
  void setInitialValue(FieldRef field, ArrayRef<T> values) {
    SetField(field, detail::ToValues(values.data(), values.size()), false);
  }
  template <typename T, typename Allocator>
  void setInitialValue(FieldRef field, const std::vector<T, Allocator>& values) {
    setInitialValue(field, ArrayRef<T>(values));
  }
  // What elements hold when an engine loads the graph.
  template <typename T, detail::IfNumber<T> = 0>
  void setInitialValue(const Tensor& tensor, T value) {
    SetElements(tensor, detail::ToValues(&value, 1), true);
  }
  template <typename T>
  void setInitialValue(const Tensor& tensor, ArrayRef<T> values) {
    SetElements(tensor, detail::ToValues(values.data(), values.size()), false);
  }
  template <typename T, typename Allocator>
  void setInitialValue(const Tensor& tensor, const std::vector<T, Allocator>& values) {
    setInitialValue(tensor, ArrayRef<T>(values));
  }
  // The number of elements of a field that is a list.
  void setFieldSize(FieldRef field, std::size_t size);
  // Issue slots of the vertex, for the cost model.
  void setPerfEstimate(const VertexRef& vertex, std::uint64_t cycles, std::uint64_t flops = 0);
  void setCycleEstimate(const VertexRef& vertex, std::uint64_t cycles) { setPerfEstimate(vertex, cycles); }
  // Estimates the vertices of a type that have no estimate of their own, when an engine is made.
  void registerPerfEstimator(StringRef vertexType, PerfEstimateFunc estimator);

  // Compiles codelets with g++, or finds them compiled; raises graph_program_compilation_error with the compiler's
  // words.
  bool addCodelets(StringRef src, CodeletFileType type = CodeletFileType::Auto, StringRef compileFlags = "",
                   StringRef targetName = "");
  bool addCodelets(ArrayRef<std::string> srcs, StringRef compileFlags = "", StringRef targetName = "");
  void addCodelets(std::stringstream& stream, StringRef compileFlags = "",
                   CodeletFileType type = CodeletFileType::CppSource, StringRef targetName = "");
  bool hasCodelet(StringRef codeletName) const;
  // The highest number of a field, and the most elements along a dimension of one.
  double getMaxVertexFieldValue(StringRef vertexType, StringRef field) const;
  std::size_t getMaxFieldDim(StringRef vertexType, StringRef field, unsigned dimension) const;

  void createHostWrite(StringRef handle, const Tensor& tensor, bool rearrangeOnHost = false);
  void createHostRead(StringRef handle, const Tensor& tensor, bool rearrangeOnHost = false);
  DataStream addHostToDeviceFIFO(StringRef handle, const Type& elementType, std::size_t numElements,
                                 ReplicatedStreamMode replicatedMode = ReplicatedStreamMode::REPLICATE,
                                 const OptionFlags& options = {});
  DataStream addDeviceToHostFIFO(StringRef handle, const Type& elementType, std::size_t numElements,
                                 const OptionFlags& options = {});
  RemoteBuffer addRemoteBuffer(StringRef handle, const Type& elementType, std::size_t numElements,
                               std::size_t repeats = 1, bool rearrangeOnHost = false, bool optimiseMemory = false);
  // What the graph holds, as JSON of ours in both formats: no tool of the vendor reads it.
  void serialize(std::ostream& stream, SerializationFormat format) const;
  // Graphviz: the variables that each vertex, or each compute set, reads and writes.
  void outputVertexGraph(std::ostream& stream, ArrayRef<program::Program> programs = {}) const;
  void outputComputeGraph(std::ostream& stream, ArrayRef<program::Program> programs = {}) const;
  Function addFunction(const program::Program& program);
  HostFunction addHostFunction(StringRef handle, ArrayRef<HostFunctionArgument> inputs,
                               ArrayRef<HostFunctionArgument> outputs);

 private:
  friend struct detail::GraphAccess;
  explicit Graph(std::shared_ptr<detail::GraphState> state);

  Tensor AddConstant(const Type& type, ArrayRef<std::size_t> shape, const detail::Values& values,
                     const DebugContext& debugContext);
  Tensor AddFilled(const Type& type, ArrayRef<std::size_t> shape, const detail::Values& value,
                   const DebugContext& debugContext);
  void ConnectValues(const FieldRef& field, const detail::Values& values, bool is_scalar);
  void SetField(const FieldRef& field, const detail::Values& values, bool is_scalar);
  void SetElements(const Tensor& tensor, const detail::Values& values, bool is_scalar);
  std::uint32_t GlobalTile(unsigned tile, const char* what) const;
  static Target WithTiles(Target target, unsigned ipus, unsigned tiles_per_ipu);
  std::uint32_t TypeNumber(const char* call, StringRef name) const;

  std::shared_ptr<detail::GraphState> state_;
  Target target_;
  std::vector<std::uint32_t> tiles_;  // Of a virtual graph, in order; empty for all.
};

// Halves as the host has them: 16 bits in two bytes.
void copyFloatToDeviceHalf(const Target& target, const float* src, void* dst, std::size_t numElements);
void copyDeviceHalfToFloat(const Target& target, const void* src, float* dst, std::size_t numElements);

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_GRAPH_HPP_
