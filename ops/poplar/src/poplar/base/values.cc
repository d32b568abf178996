#include "values.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <ostream>

#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

template <typename Work>
auto OfKind(Type type, const Work& work) {
  switch (type.kind()) {
    case Type::Kind::kBool:
      return work(bool{});
    case Type::Kind::kChar:
      return work(char{});
    case Type::Kind::kUnsignedChar:
      return work(std::uint8_t{});
    case Type::Kind::kSignedChar:
      return work(std::int8_t{});
    case Type::Kind::kUnsignedShort:
      return work(std::uint16_t{});
    case Type::Kind::kShort:
      return work(std::int16_t{});
    case Type::Kind::kUnsignedInt:
    case Type::Kind::kUnsignedLong:
      return work(std::uint32_t{});
    case Type::Kind::kInt:
    case Type::Kind::kLong:
      return work(std::int32_t{});
    case Type::Kind::kUnsignedLongLong:
      return work(std::uint64_t{});
    case Type::Kind::kLongLong:
      return work(std::int64_t{});
    case Type::Kind::kHalf:
      return work(_Float16{});
    case Type::Kind::kFloat:
      break;
  }
  return work(float{});
}

template <typename T>
void Store(T value, std::vector<std::uint8_t>* bytes) {
  const std::size_t end = bytes->size();
  bytes->resize(end + sizeof value);
  std::memcpy(bytes->data() + end, &value, sizeof value);
}

template <typename T>
T Load(const std::uint8_t* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

template <typename T>
bool Holds(double value) {
  return std::trunc(value) >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
         std::trunc(value) <= static_cast<double>(std::numeric_limits<T>::max());
}

[[noreturn]] void Refuse(const std::string& what, const std::string& value, Type type) {
  throw type_error(what + ": the type " + type.toString() + " cannot hold the value " + value + ".");
}

template <typename T>
T FromInteger(std::int64_t value, const std::string& what, Type type) {
  if constexpr (std::is_same<T, bool>::value) {
    return value != 0;
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<T>(value);
  } else {
    // A number of 32 bits may come with the other sign: 0xffffffff is -1 as INT.
    constexpr std::int64_t kLowest = -(std::int64_t{1} << (8 * sizeof(T) - 1));
    constexpr std::int64_t kHighest = (std::int64_t{1} << (8 * sizeof(T))) - 1;
    if (value < kLowest || value > kHighest) Refuse(what, std::to_string(value), type);
    return static_cast<T>(value);
  }
}

}  // namespace

std::size_t TypeBytes(Type type) {
  return OfKind(type, [](auto zero) { return sizeof zero; });
}

std::uint16_t ToHalf(float value) {
  const auto half = static_cast<_Float16>(value);
  std::uint16_t bits;
  std::memcpy(&bits, &half, sizeof bits);
  return bits;
}

float FromHalf(std::uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, sizeof bits);
  return static_cast<float>(half);
}

bool IsFloating(Type type) { return type == FLOAT || type == HALF; }

double HighestValue(Type type) {
  if (type == HALF) return 65504;
  return OfKind(type, [](auto zero) { return static_cast<double>(std::numeric_limits<decltype(zero)>::max()); });
}

std::vector<std::uint8_t> ToBytes(const Values& values, Type type, const std::string& what) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(values.size() * TypeBytes(type));
  OfKind(type, [&](auto zero) {
    using T = decltype(zero);
    for (const double value : values.floating) {
      if constexpr (!std::is_same<T, float>::value && !std::is_same<T, _Float16>::value) {
        if (!Holds<T>(value)) Refuse(what, std::to_string(value), type);
      }
      Store(static_cast<T>(value), &bytes);
    }
    for (const std::int64_t value : values.integral) {
      if constexpr (std::is_same<T, float>::value || std::is_same<T, _Float16>::value) {
        Store(static_cast<T>(value), &bytes);
      } else {
        Store(FromInteger<T>(value, what, type), &bytes);
      }
    }
    return 0;
  });
  return bytes;
}

double ElementValue(const std::uint8_t* element, Type type) {
  return OfKind(type, [&](auto zero) { return static_cast<double>(Load<decltype(zero)>(element)); });
}

std::int64_t ElementInteger(const std::uint8_t* element, Type type) {
  return OfKind(type, [&](auto zero) { return static_cast<std::int64_t>(Load<decltype(zero)>(element)); });
}

std::string ElementText(const std::uint8_t* element, Type type) {
  if (!IsFloating(type)) {
    if (type == UNSIGNED_LONGLONG) return std::to_string(Load<std::uint64_t>(element));
    return std::to_string(ElementInteger(element, type));
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.7f", ElementValue(element, type));
  return text;
}

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

std::string Type::toString() const {
  switch (kind_) {
    case Kind::kBool:
      return "bool";
    case Kind::kChar:
      return "char";
    case Kind::kUnsignedChar:
      return "unsigned char";
    case Kind::kSignedChar:
      return "signed char";
    case Kind::kUnsignedShort:
      return "unsigned short";
    case Kind::kShort:
      return "short";
    case Kind::kUnsignedInt:
      return "unsigned int";
    case Kind::kInt:
      return "int";
    case Kind::kUnsignedLong:
      return "unsigned long";
    case Kind::kLong:
      return "long";
    case Kind::kUnsignedLongLong:
      return "unsigned long long";
    case Kind::kLongLong:
      return "long long";
    case Kind::kHalf:
      return "half";
    case Kind::kFloat:
      break;
  }
  return "float";
}

std::ostream& operator<<(std::ostream& stream, Type type) { return stream << type.toString(); }

void copyFloatToDeviceHalf(const Target&, const float* src, void* dst, std::size_t numElements) {
  for (std::size_t i = 0; i < numElements; ++i) {
    const std::uint16_t bits = detail::ToHalf(src[i]);
    std::memcpy(static_cast<std::uint8_t*>(dst) + 2 * i, &bits, sizeof bits);
  }
}

void copyDeviceHalfToFloat(const Target&, const void* src, float* dst, std::size_t numElements) {
  for (std::size_t i = 0; i < numElements; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, static_cast<const std::uint8_t*>(src) + 2 * i, sizeof bits);
    dst[i] = detail::FromHalf(bits);
  }
}

}  // namespace ipu_tf
}  // namespace poplar
