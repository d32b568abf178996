// Elements as bytes.
#ifndef IPU_TF_POPLAR_VALUES_H_
#define IPU_TF_POPLAR_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <poplar/Graph.hpp>
#include <poplar/Type.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// Bytes of an element in the memory of the host, and of a tile.
std::size_t TypeBytes(Type type);

std::uint16_t ToHalf(float value);
float FromHalf(std::uint16_t bits);

// Numbers as elements of a type; raises type_error, which begins with `what`, for numbers that the type cannot hold.
std::vector<std::uint8_t> ToBytes(const Values& values, Type type, const std::string& what);

// An element as a number, and as PrintTensor writes it.
double ElementValue(const std::uint8_t* element, Type type);
std::int64_t ElementInteger(const std::uint8_t* element, Type type);
std::string ElementText(const std::uint8_t* element, Type type);
bool IsFloating(Type type);
// The highest number that an element holds.
double HighestValue(Type type);

// "title: [1 2]" and a line end, as PrintTensor writes it; of a matrix, one line for each row.
std::string PrintedTensor(const std::string& title, const std::uint8_t* elements, Type type,
                          const std::vector<std::size_t>& shape);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_VALUES_H_
