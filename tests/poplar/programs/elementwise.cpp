// Operations of popops element by element: prints the bytes of each result, which test_popops.py computes with NumPy.
#include <cmath>
#include <popops/ElementWise.hpp>
#include <popops/ElementWiseUtil.hpp>
#include <popops/Expr.hpp>
#include <popops/Fill.hpp>
#include <popops/Zero.hpp>
#include <sstream>
#include <vector>

#include "results.h"

using namespace poplar;
using namespace poplar::program;
namespace pe = popops::expr;
using popops::expr::operator""_half;

namespace {

const std::vector<double> kFloats{0.5, -1.5, 2.5, 0.25, 3.75, -0.125, 1, 7, -2.5, 0.0625, 5.5, 0};
const std::vector<double> kOthers{2, 0.5, -1.25, 3, 0.75, 1.5, -2, 0.25, 2.5, 1, 0.5, 3};
const std::vector<double> kUnits{0.5, -0.75, 0.25, 0.125, 0.875, -0.5, 1, -1, 0.0625, 0.375, 0.9375, 0};
const std::vector<double> kPositive{0.5, 1.5, 2.5, 0.25, 3.75, 0.125, 1, 7, 2, 0.0625, 5.5, 100};
const std::vector<double> kIntegers{5, -7, 100, 0, -1, 12345, 2, -2147483647, 31, 8, -16, 1};
const std::vector<double> kFew{2, 3, 7, 5, 1, 4, 0, 2, 30, 3, 2, 9};

#define UNARY(NAME)                                 \
  {                                                 \
    test.Show(#NAME + name, popops::NAME(g, x, p)); \
    const Tensor in_place = test.Copied(x);         \
    popops::NAME##InPlace(g, in_place, p);          \
    test.Show(#NAME "InPlace" + name, in_place);    \
    const Tensor out = g.clone(x);                  \
    popops::NAME##WithOutput(g, x, out, p);         \
    test.Show(#NAME "WithOutput" + name, out);      \
  }
#define UNARY_ONCE(NAME) test.Show(#NAME + name, popops::NAME(g, x, p));

void TestUnary(Test& test, const Type& type, const std::vector<double>& values, const std::vector<double>& units,
               const std::vector<double>& positive) {
  Graph& g = test.graph;
  Sequence& p = test.prog;
  const std::string name = " " + type.toString();
  Tensor x = test.Variable(type, {12}, values);
  test.Show("x" + name, x);
  UNARY(abs)
  UNARY_ONCE(square)
  UNARY_ONCE(signum)
  UNARY(neg)
  if (type == FLOAT || type == HALF) {
    UNARY_ONCE(cbrt)
    UNARY_ONCE(ceil)
    UNARY_ONCE(cos)
    UNARY_ONCE(erf)
    UNARY(exp)
    UNARY_ONCE(exp2)
    UNARY_ONCE(expm1)
    UNARY_ONCE(floor)
    UNARY_ONCE(geluErf)
    UNARY_ONCE(isFinite)
    UNARY_ONCE(nearbyint)
    UNARY_ONCE(round)
    UNARY_ONCE(sigmoid)
    UNARY_ONCE(sin)
    UNARY_ONCE(tan)
    UNARY_ONCE(tanh)
    test.Show("trunc" + name, popops::map(g, pe::UnaryOpType::TRUNC, x, p));
    test.Show("relu" + name, popops::map(g, pe::UnaryOpType::RELU, x, p));
    x = test.Variable(type, {12}, units);
    test.Show("units" + name, x);
    UNARY_ONCE(asin)
    x = test.Variable(type, {12}, positive);
    test.Show("positive" + name, x);
    UNARY_ONCE(inv)
    UNARY(log)
    UNARY_ONCE(log1p)
    UNARY_ONCE(rsqrt)
    UNARY(sqrt)
  } else {
    UNARY(bitwiseNot)
    UNARY_ONCE(popcount)
    UNARY_ONCE(countLeadingZeros)
  }
}

#define BINARY(NAME) test.Show(#NAME + name, popops::NAME(g, x, y, p));
#define BINARY_ALL(NAME, CONSTANT)                                    \
  {                                                                   \
    BINARY(NAME)                                                      \
    const Tensor in_place = test.Copied(x);                           \
    popops::NAME##InPlace(g, in_place, y, p);                         \
    test.Show(#NAME "InPlace" + name, in_place);                      \
    const Tensor out = g.clone(x);                                    \
    popops::NAME##WithOutput(g, x, y, out, p);                        \
    test.Show(#NAME "WithOutput" + name, out);                        \
    test.Show(#NAME "Right" + name, popops::NAME(g, x, CONSTANT, p)); \
    test.Show(#NAME "Left" + name, popops::NAME(g, CONSTANT, x, p));  \
    const Tensor other = test.Copied(x);                              \
    popops::NAME##InPlace(g, other, CONSTANT, p);                     \
    test.Show(#NAME "InPlaceRight" + name, other);                    \
    const Tensor third = g.clone(x);                                  \
    popops::NAME##WithOutput(g, x, CONSTANT, third, p);               \
    test.Show(#NAME "WithOutputRight" + name, third);                 \
  }

template <typename T>
void TestBinary(Test& test, const Type& type, const std::vector<double>& values, const std::vector<double>& others,
                T constant) {
  Graph& g = test.graph;
  Sequence& p = test.prog;
  const std::string name = " " + type.toString();
  Tensor x = test.Variable(type, {12}, values);
  const Tensor y = test.Variable(type, {12}, others);
  test.Show("a" + name, x);
  test.Show("b" + name, y);
  BINARY_ALL(add, constant)
  BINARY_ALL(sub, constant)
  BINARY(mul)
  BINARY(div)
  BINARY(rem)
  BINARY(max)
  BINARY(min)
  BINARY(eq)
  BINARY(neq)
  BINARY(gt)
  BINARY(gteq)
  BINARY(lt)
  BINARY(lteq)
  test.Show("clamp" + name, popops::clamp(g, x, test.Variable(type, {}, {1}), y, p));
  test.Show("select" + name, popops::select(g, x, y, popops::lt(g, x, y, p), p));
  if (type == FLOAT || type == HALF) {
    BINARY(atan2)
    x = test.Variable(type, {12}, kPositive);
    test.Show("c" + name, x);
    BINARY(pow)
    test.Show("varianceToInvStdDev" + name, popops::varianceToInvStdDev(g, x, 0.5f, p));
    test.Show("invStdDevToVariance" + name, popops::invStdDevToVariance(g, x, 0.5f, p));
  } else {
    BINARY(bitwiseAnd)
    BINARY(bitwiseOr)
    BINARY(bitwiseXor)
    BINARY(bitwiseXnor)
    BINARY(shiftLeft)
    BINARY(shiftRight)
    BINARY(shiftRightSignExtend)
  }
}

void TestExpressions(Test& test) {
  Graph& g = test.graph;
  Sequence& p = test.prog;
  const Tensor x = test.Variable(FLOAT, {3, 4}, kFloats);
  const Tensor y = test.Variable(FLOAT, {3, 4}, kOthers);
  const Tensor row = test.Variable(FLOAT, {4}, {1, 2, 3, 4});
  const Tensor column = test.Variable(FLOAT, {3, 1}, {10, 20, 30});
  const Tensor one = test.Variable(FLOAT, {}, {0.5});
  test.Show("rows", popops::add(g, x, row, p));
  test.Show("columns", popops::mul(g, column, x, p));
  test.Show("outer", popops::add(g, column, row, p));
  test.Show("one", popops::sub(g, one, x, p));
  test.Show("fused", popops::map(g, (pe::_1 + 1) * pe::_2 - pe::_3, {x, y, one}, p));
  test.Show("chosen",
            popops::map(g, pe::Select(pe::Abs(pe::_1), pe::Cast(pe::_1 > pe::_2, FLOAT), !(pe::_1 < 0.5f)), {x, y}, p));
  const Tensor turned = test.Copied(test.Variable(FLOAT, {2, 2}, {1, 2, 3, 4}));
  popops::addInPlace(g, turned, turned.transpose(), p);
  test.Show("turned", turned);
  const Tensor a = test.Copied(x);
  const Tensor b = test.Copied(y);
  popops::mapInPlace(g, std::vector<pe::Any>{pe::_1 + pe::_2, pe::_1 - pe::_2}, {a, b}, p);
  test.Show("sum", a);
  test.Show("difference", b);
  const Tensor halves = test.Variable(HALF, {12}, kFloats);
  test.Show("half", popops::map(g, pe::_1 * pe::_1 * 3.0f + 0.1_half, {halves}, p));
  test.Show("short", popops::map(g, pe::_1 + 3, {test.Variable(SHORT, {4}, {1, -2, 32767, 5})}, p));
  const Tensor filled = g.clone(x);
  popops::fill(g, filled, p, 2.5f);
  popops::zero(g, filled.slice(1, 2), p);
  test.Show("filled", filled);
  test.Show("cast", popops::cast(g, test.Variable(FLOAT, {5}, {1.9, -1.9, 3e9, -5, 70000}), UNSIGNED_INT, p));
  std::ostringstream text;
  popops::outputGeneratedCodelet(g.getTarget(), pe::_1 + pe::_2, {x, y}, {}, text);
  CHECK(text.str().find("op::Add::Of(x0, x1)") != std::string::npos);
  std::ostringstream shown;
  shown << (pe::_1 + 2 * pe::_2);
  CHECK(shown.str() == "Add(_1, Mul(Const(2), _2))");
  CHECK(pe::deepEquals(pe::_1 + 2, pe::Add(pe::_1, pe::Const(2))) && !pe::deepEquals(pe::_1 + 2, pe::_1 + 3));
}

void TestRefusals(const Device& device) {
  Test test(device);
  Graph& g = test.graph;
  Sequence& p = test.prog;
  const Tensor x = test.Variable(FLOAT, {3, 4}, kFloats);
  const Tensor n = test.Variable(INT, {3, 4}, kIntegers);
  Refused([&] { popops::add(g, x, n, p); }, "popops::Add: the operands of Add must have one type");
  Refused([&] { popops::add(g, x, x.slice(0, 2), p); }, "do not broadcast to each other");
  Refused([&] { popops::addInPlace(g, x[0], x, p); }, "does not have the shape of the output, {4}");
  Refused([&] { popops::gtInPlace(g, x, x, p); }, "the result is of bool. Received: an output of float");
  Refused([&] { popops::add(g, x, 1, p); }, "a number of int does not stand beside elements of float");
  Refused([&] { popops::map(g, pe::_1 + pe::_2, {x}, p); }, "has the input _2, but there are 1 tensors");
  Refused([&] { popops::logicalNot(g, x, p); }, "the operands of Not are of BOOL. Received: float");
  Refused([&] { popops::shiftLeft(g, x, x, p); }, "the operands of Shl are integers. Received: float");
  Refused([&] { popops::select(g, x, x, n, p); }, "the condition of a select is of BOOL. Received: int");
  Refused([&] { popops::map(g, pe::_1 + 1, {}, p); }, "there are 0 tensors");
  Refused([&] { popops::mapInPlace(g, pe::_1 + 1, {}, p); }, "there is no tensor to write");
  Refused([&] { popops::cast(g, x, n[0]); }, "popops::cast: the shapes must be equal");
  Graph empty(device);
  const Tensor y = empty.addVariable(FLOAT, {4}, "y");
  empty.setTileMapping(y, 0);
  Refused([&] { popops::neg(empty, y, p); }, "Call popops::addCodelets(graph) first");
}

}  // namespace

int main() {
  const Device device = SmallDevice();
  TestRefusals(device);
  Test test(device);
  for (const Type& type : {FLOAT, HALF}) {
    TestUnary(test, type, kFloats, kUnits, kPositive);
    TestBinary(test, type, kFloats, kOthers, 1.5f);
  }
  for (const Type& type : {INT, UNSIGNED_INT}) {
    std::vector<double> integers = kIntegers;
    if (type == UNSIGNED_INT) {
      for (double& one : integers) one = std::abs(one);
    }
    TestUnary(test, type, integers, {}, {});
    if (type == INT) TestBinary(test, type, integers, kFew, 3);
    if (type == UNSIGNED_INT) TestBinary(test, type, integers, kFew, 3u);
  }
  TestExpressions(test);
  test.Run();
}
