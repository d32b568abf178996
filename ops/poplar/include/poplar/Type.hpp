// The types of elements.
#ifndef IPU_TF_POPLAR_TYPE_HPP_
#define IPU_TF_POPLAR_TYPE_HPP_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace poplar {
inline namespace ipu_tf {

class Type {
 public:
  enum class Kind : std::uint8_t {
    kBool,
    kChar,
    kUnsignedChar,
    kSignedChar,
    kUnsignedShort,
    kShort,
    kUnsignedInt,
    kInt,
    kUnsignedLong,
    kLong,
    kUnsignedLongLong,
    kLongLong,
    kHalf,
    kFloat,
  };

  constexpr Type() = default;
  constexpr explicit Type(Kind kind) : kind_(kind) {}

  constexpr Kind kind() const { return kind_; }
  // The name as codelets write it: "float", "unsigned int".
  std::string toString() const;

  friend constexpr bool operator==(Type a, Type b) { return a.kind_ == b.kind_; }
  friend constexpr bool operator!=(Type a, Type b) { return a.kind_ != b.kind_; }
  friend constexpr bool operator<(Type a, Type b) { return a.kind_ < b.kind_; }

 private:
  Kind kind_ = Kind::kFloat;
};

std::ostream& operator<<(std::ostream& stream, Type type);

inline constexpr Type BOOL{Type::Kind::kBool};
inline constexpr Type CHAR{Type::Kind::kChar};
inline constexpr Type UNSIGNED_CHAR{Type::Kind::kUnsignedChar};
inline constexpr Type SIGNED_CHAR{Type::Kind::kSignedChar};
inline constexpr Type UNSIGNED_SHORT{Type::Kind::kUnsignedShort};
inline constexpr Type SHORT{Type::Kind::kShort};
inline constexpr Type UNSIGNED_INT{Type::Kind::kUnsignedInt};
inline constexpr Type INT{Type::Kind::kInt};
inline constexpr Type UNSIGNED_LONG{Type::Kind::kUnsignedLong};
inline constexpr Type LONG{Type::Kind::kLong};
inline constexpr Type UNSIGNED_LONGLONG{Type::Kind::kUnsignedLongLong};
inline constexpr Type LONGLONG{Type::Kind::kLongLong};
inline constexpr Type HALF{Type::Kind::kHalf};
inline constexpr Type FLOAT{Type::Kind::kFloat};

// The type on the device of a type of the host: equivalent_device_type<float>().value is FLOAT.
template <typename T>
struct equivalent_device_type;

template <>
struct equivalent_device_type<bool> {
  const Type& value = BOOL;
};
template <>
struct equivalent_device_type<char> {
  const Type& value = CHAR;
};
template <>
struct equivalent_device_type<unsigned char> {
  const Type& value = UNSIGNED_CHAR;
};
template <>
struct equivalent_device_type<signed char> {
  const Type& value = SIGNED_CHAR;
};
template <>
struct equivalent_device_type<unsigned short> {
  const Type& value = UNSIGNED_SHORT;
};
template <>
struct equivalent_device_type<short> {
  const Type& value = SHORT;
};
template <>
struct equivalent_device_type<unsigned> {
  const Type& value = UNSIGNED_INT;
};
template <>
struct equivalent_device_type<int> {
  const Type& value = INT;
};
template <>
struct equivalent_device_type<unsigned long> {
  const Type& value = UNSIGNED_LONG;
};
template <>
struct equivalent_device_type<long> {
  const Type& value = LONG;
};
template <>
struct equivalent_device_type<unsigned long long> {
  const Type& value = UNSIGNED_LONGLONG;
};
template <>
struct equivalent_device_type<long long> {
  const Type& value = LONGLONG;
};
template <>
struct equivalent_device_type<float> {
  const Type& value = FLOAT;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_TYPE_HPP_
