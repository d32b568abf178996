#include "print_tensor.h"

#include "values.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

std::string Printed(const std::uint8_t** at, Type type, const std::vector<std::size_t>& shape, std::size_t dimension,
                    const std::string& indent) {
  if (dimension == shape.size()) {
    const std::string text = ElementText(*at, type);
    *at += TypeBytes(type);
    return text;
  }
  std::string text = "[";
  if (dimension + 1 == shape.size()) {
    for (std::size_t i = 0; i < shape[dimension]; ++i)
      text += (i == 0 ? "" : " ") + Printed(at, type, shape, dimension + 1, "");
    return text + "]";
  }
  const std::string inner = indent + "  ";
  for (std::size_t i = 0; i < shape[dimension]; ++i) {
    text += "\n" + inner + Printed(at, type, shape, dimension + 1, inner);
  }
  return text + "\n" + indent + "]";
}

}  // namespace

std::string PrintedTensor(const std::string& title, const std::uint8_t* elements, Type type,
                          const std::vector<std::size_t>& shape) {
  return (title.empty() ? "" : title + ": ") + Printed(&elements, type, shape, 0, "") + "\n";
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
