#include <popops/codelets.hpp>

#include <poputil/exceptions.hpp>

#include "../poplar/base/prefix.h"
#include "library.h"

namespace popops {
inline namespace ipu_tf {
namespace {

constexpr char kHere = 0;  // An address inside of this library.
constexpr const char* kAlwaysThere = "popops::Fill<float>";

}  // namespace

void addCodelets(poplar::Graph& graph) { graph.addCodelets(detail::CodeletFolder() + "/popops.cpp"); }

namespace detail {

std::string CodeletFolder() { return poplar::detail::PrefixOf(&kHere) + "/codelets"; }

void AddFile(poplar::Graph* graph, const char* file, const std::string& type) {
  if (graph->hasCodelet(type)) return;
  if (!graph->hasCodelet(kAlwaysThere)) {
    throw poputil::poplibs_error("popops: the graph has no codelets of popops. Call popops::addCodelets(graph) first.");
  }
  graph->addCodelets(CodeletFolder() + "/" + file);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace popops
