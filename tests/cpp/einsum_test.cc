// How einsums are read, and how strided tensors are copied.
#include "../../ops/core/products/einsum.h"

#include <map>

#include "check.h"
#include "reference.h"

namespace ipu_tf::testing {
namespace {

// Where an element lies, by the values of its labels.
int64_t At(const std::string& labels, const std::vector<int64_t>& shape, const std::map<char, int64_t>& index) {
  int64_t at = 0;
  for (size_t i = 0; i < labels.size(); ++i) at = at * shape[i] + index.at(labels[i]);
  return at;
}

// Visits every combination of label values.
template <typename Visit>
void ForEachIndex(const std::map<char, int64_t>& extents, const Visit& visit) {
  std::map<char, int64_t> index;
  int64_t count = 1;
  for (const auto& [label, extent] : extents) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = i;
    for (const auto& [label, extent] : extents) {
      index[label] = left % extent;
      left /= extent;
    }
    visit(index);
  }
}

struct Case {
  const char *equation, *a, *b, *out;  // Without ellipses: these are "xy".
};

const std::map<char, int64_t> kExtents = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'x', 2}, {'y', 3}};

std::vector<int64_t> ShapeOf(const std::string& labels) {
  std::vector<int64_t> shape;
  for (const char label : labels) shape.push_back(kExtents.at(label));
  return shape;
}

// The sum over an einsum's axes, as they were read.
std::vector<float> Evaluate(const Einsum& einsum, const std::vector<float>& a, const std::vector<float>& b) {
  int64_t count = 1, size = 1;
  for (const EinsumAxis& axis : einsum.axes) count *= axis.extent;
  for (const int64_t extent : einsum.output_shape) size *= extent;
  std::vector<float> out(size);
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = i, at = 0, a_at = 0, b_at = 0;
    for (const EinsumAxis& axis : einsum.axes) {
      const int64_t index = left % axis.extent;
      left /= axis.extent;
      a_at += index * axis.a_stride;
      b_at += index * axis.b_stride;
      at += index * axis.output_stride;
    }
    out[at] += a[a_at] * b[b_at];
  }
  return out;
}

TEST(EinsumAxesAreThoseOfTheEquation) {
  const Case cases[] = {
      {"ab,bc->ac", "ab", "bc", "ac"},
      {"abc,acd->abd", "abc", "acd", "abd"},
      {"ab, cb -> ca", "ab", "cb", "ca"},
      {"a,b->ab", "a", "b", "ab"},
      {"abcd,dcb->a", "abcd", "dcb", "a"},
      {"...ab,bc->...ac", "xyab", "bc", "xyac"},
      {"...ab,...b->...a", "xyab", "xyb", "xya"},
      {"ab,ab->", "ab", "ab", ""},
  };
  for (const Case& c : cases) {
    const Context context(c.equation);
    const auto a_shape = ShapeOf(c.a), b_shape = ShapeOf(c.b), out_shape = ShapeOf(c.out);
    Einsum einsum;
    CHECK(ParseEinsum(c.equation, a_shape, b_shape, &einsum).empty());
    CHECK_SAME(einsum.output_shape, out_shape);
    std::map<char, int64_t> extents;
    int64_t a_size = 1, b_size = 1, size = 1;
    for (const char label : std::string(c.a) + c.b) extents[label] = kExtents.at(label);
    for (const int64_t extent : a_shape) a_size *= extent;
    for (const int64_t extent : b_shape) b_size *= extent;
    for (const int64_t extent : out_shape) size *= extent;
    const auto a = Numbers(a_size, 1), b = Numbers(b_size, 2);
    Sums wanted(size);
    ForEachIndex(extents, [&](const std::map<char, int64_t>& index) {
      wanted.Add(At(c.out, out_shape, index),
                 static_cast<double>(a[At(c.a, a_shape, index)]) * b[At(c.b, b_shape, index)]);
    });
    CHECK_CLOSE(Evaluate(einsum, a, b), wanted.value, wanted.Tolerance(1e-6));
  }
}

TEST(EinsumRefusesWhatTileOpsCannotDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"ab->ba", "is not of the form"},      {"aa,ab->b", "repeats a label"},   {"ab,bc->a", "over one operand only"},
      {"ab,bc->acd", "that no operand has"}, {"a1,bc->ac", "that is no label"}, {"abc,bc->a", "does not fit operands"},
  };
  for (const auto& [equation, message] : cases) {
    const Context context(equation);
    Einsum einsum;
    const std::string error = ParseEinsum(equation, {2, 2}, {2, 2}, &einsum);
    CHECK(error.find(message) != std::string::npos);
  }
  Einsum einsum;
  CHECK(ParseEinsum("ab,bc->ac", {2, 3}, {4, 2}, &einsum).find("3 elements in one operand and 4") != std::string::npos);
}

TEST(StridedCopiesGoThereAndBack) {
  const std::vector<StridedAxis> layouts[] = {{{4, 5}, {5, 1}}, {{5, 1}, {4, 5}}, {{2, 30}, {3, 2}, {4, 7}}, {}};
  for (const auto& axes : layouts) {
    int64_t count = 1, reach = 1;
    for (const StridedAxis& axis : axes) {
      count *= axis.extent;
      reach += (axis.extent - 1) * axis.stride;
    }
    const auto from = Numbers(reach, 3);
    std::vector<float> dense(count), wanted(count), back(reach, 9.0f), expected(reach, 9.0f);
    for (int64_t i = 0; i < count; ++i) {
      int64_t left = i, at = 0;
      for (size_t axis = axes.size(); axis-- > 0;) {
        at += left % axes[axis].extent * axes[axis].stride;
        left /= axes[axis].extent;
      }
      wanted[i] = from[at];
      expected[at] = from[at];
    }
    CopyStrided(from.data(), axes, dense.data());
    CHECK_SAME(dense, wanted);
    CopyToStrided(dense.data(), axes, back.data());
    CHECK_SAME(back, expected);
  }
}

TEST(AxesOfOneStrideCollapse) {
  StridedAxis merged{};
  CHECK(Collapse({{3, 8}, {1, 77}, {4, 2}}, &merged));
  CHECK(merged.extent == 12 && merged.stride == 2);
  CHECK(!Collapse({{3, 9}, {4, 2}}, &merged));
  CHECK(Collapse({}, &merged) && merged.extent == 1);
}

}  // namespace
}  // namespace ipu_tf::testing
