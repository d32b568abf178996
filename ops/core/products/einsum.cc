#include "einsum.h"

#include <algorithm>
#include <cstring>

namespace ipu_tf {
namespace {

// A subscript with its ellipsis spelled out: dimensions of the ellipsis get labels that no letter has.
using Labels = std::vector<int>;
constexpr int kEllipsisLabel = 1000;

std::string WithoutSpaces(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

// Splits "ab,bc->ac" in three. Returns false if it is anything else.
bool SplitEquation(const std::string& equation, std::string* a, std::string* b, std::string* out) {
  const std::string text = WithoutSpaces(equation);
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return false;
  *a = text.substr(0, comma);
  *b = text.substr(comma + 1, arrow - comma - 1);
  *out = text.substr(arrow + 2);
  return b->find(',') == std::string::npos;
}

std::string ParseSubscript(const std::string& subscript, int64_t ellipsis_rank, Labels* labels) {
  for (size_t i = 0; i < subscript.size(); ++i) {
    if (subscript.compare(i, 3, "...") == 0) {
      for (int64_t d = 0; d < ellipsis_rank; ++d) labels->push_back(kEllipsisLabel + static_cast<int>(d));
      i += 2;
      continue;
    }
    const char c = subscript[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter) return "the subscript '" + subscript + "' has a character that is no label";
    if (std::count(labels->begin(), labels->end(), c) > 0) {
      return std::string("the subscript '") + subscript + "' repeats a label, which tile ops do not take";
    }
    labels->push_back(c);
  }
  return "";
}

// The number of dimensions that an operand's ellipsis stands for; 0 without one.
int64_t EllipsisRank(const std::string& subscript, size_t dims) {
  if (subscript.find("...") == std::string::npos) return 0;
  return static_cast<int64_t>(dims) - static_cast<int64_t>(subscript.size() - 3);
}

int64_t Find(const Labels& labels, int label) {
  const auto at = std::find(labels.begin(), labels.end(), label);
  return at == labels.end() ? -1 : at - labels.begin();
}

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return strides;
}

std::string ParseLabels(const std::string& equation, const std::vector<int64_t>& a_shape,
                        const std::vector<int64_t>& b_shape, Labels* a, Labels* b, Labels* out) {
  std::string a_text, b_text, out_text;
  if (!SplitEquation(equation, &a_text, &b_text, &out_text)) {
    return "equation '" + equation + "' is not of the form 'a,b->c'";
  }
  const int64_t a_rank = EllipsisRank(a_text, a_shape.size());
  const int64_t b_rank = EllipsisRank(b_text, b_shape.size());
  const bool both = a_text.find("...") != std::string::npos && b_text.find("...") != std::string::npos;
  if (a_rank < 0 || b_rank < 0 || (both && a_rank != b_rank)) {
    return "equation '" + equation + "': the ellipses stand for different numbers of dimensions";
  }
  std::string error = ParseSubscript(a_text, a_rank, a);
  if (error.empty()) error = ParseSubscript(b_text, b_rank, b);
  if (error.empty()) error = ParseSubscript(out_text, std::max(a_rank, b_rank), out);
  if (!error.empty()) return error;
  if (a->size() != a_shape.size() || b->size() != b_shape.size()) {
    return "equation '" + equation + "' does not fit operands of " + std::to_string(a_shape.size()) + " and " +
           std::to_string(b_shape.size()) + " dimensions";
  }
  return "";
}

}  // namespace

std::string ParseEinsum(const std::string& equation, const std::vector<int64_t>& a_shape,
                        const std::vector<int64_t>& b_shape, Einsum* einsum) {
  Labels a, b, out;
  const std::string error = ParseLabels(equation, a_shape, b_shape, &a, &b, &out);
  if (!error.empty()) return error;
  const std::vector<int64_t> a_strides = DenseStrides(a_shape), b_strides = DenseStrides(b_shape);
  Labels order = out;
  for (const int label : a) {
    if (Find(out, label) < 0) order.push_back(label);
  }
  for (const int label : b) {
    if (Find(order, label) < 0) return "equation '" + equation + "' sums a label over one operand only";
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t in_a = Find(a, order[i]), in_b = Find(b, order[i]);
    const bool summed = i >= out.size();
    if (summed && in_b < 0) return "equation '" + equation + "' sums a label over one operand only";
    if (in_a < 0 && in_b < 0) return "equation '" + equation + "' outputs a label that no operand has";
    if (in_a >= 0 && in_b >= 0 && a_shape[in_a] != b_shape[in_b]) {
      return "equation '" + equation + "': a label stands for " + std::to_string(a_shape[in_a]) +
             " elements in one operand and " + std::to_string(b_shape[in_b]) + " in the other";
    }
    EinsumAxis axis;
    axis.role = summed     ? AxisRole::kReduction
                : in_b < 0 ? AxisRole::kRow
                : in_a < 0 ? AxisRole::kColumn
                           : AxisRole::kBatch;
    axis.extent = in_a >= 0 ? a_shape[in_a] : b_shape[in_b];
    axis.a_stride = in_a >= 0 ? a_strides[in_a] : 0;
    axis.b_stride = in_b >= 0 ? b_strides[in_b] : 0;
    axis.output_stride = 0;
    if (!summed) einsum->output_shape.push_back(axis.extent);
    einsum->axes.push_back(axis);
  }
  const std::vector<int64_t> output_strides = DenseStrides(einsum->output_shape);
  for (size_t i = 0; i < out.size(); ++i) einsum->axes[i].output_stride = output_strides[i];
  return "";
}

bool Collapse(const std::vector<StridedAxis>& axes, StridedAxis* merged) {
  *merged = {1, 1};
  bool first = true;
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].extent == 1) continue;
    if (first) {
      *merged = axes[i];
      first = false;
    } else if (axes[i].stride == merged->extent * merged->stride) {
      merged->extent *= axes[i].extent;
    } else {
      return false;
    }
  }
  return true;
}

namespace {

// Visits the strided offsets of all but the last axis in row-major order.
template <typename Visit>
void ForEachLine(const std::vector<StridedAxis>& axes, size_t axis, int64_t offset, Visit visit) {
  if (axis + 1 >= axes.size()) return visit(offset);
  for (int64_t i = 0; i < axes[axis].extent; ++i) {
    ForEachLine(axes, axis + 1, offset + i * axes[axis].stride, visit);
  }
}

}  // namespace

void CopyStrided(const float* from, const std::vector<StridedAxis>& axes, float* to) {
  const StridedAxis line = axes.empty() ? StridedAxis{1, 1} : axes.back();
  ForEachLine(axes, 0, 0, [&](int64_t offset) {
    const float* source = from + offset;
    if (line.stride == 1) {
      std::memcpy(to, source, line.extent * sizeof(float));
    } else {
      for (int64_t i = 0; i < line.extent; ++i) to[i] = source[i * line.stride];
    }
    to += line.extent;
  });
}

void CopyToStrided(const float* from, const std::vector<StridedAxis>& axes, float* to) {
  const StridedAxis line = axes.empty() ? StridedAxis{1, 1} : axes.back();
  ForEachLine(axes, 0, 0, [&](int64_t offset) {
    float* target = to + offset;
    for (int64_t i = 0; i < line.extent; ++i) target[i * line.stride] = from[i];
    from += line.extent;
  });
}

}  // namespace ipu_tf
