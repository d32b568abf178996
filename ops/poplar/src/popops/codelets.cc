#include <popops/codelets.hpp>

#include "../poplar/base/prefix.h"

namespace popops {
inline namespace ipu_tf {
namespace {

constexpr char kHere = 0;  // An address inside of this library.

}  // namespace

void addCodelets(poplar::Graph& graph) { graph.addCodelets(poplar::detail::PrefixOf(&kHere) + "/codelets/popops.cpp"); }

}  // namespace ipu_tf
}  // namespace popops
