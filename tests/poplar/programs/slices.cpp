// Slices, updates and look-ups of popops at places known at run time.
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <sstream>

#include "results.h"

using namespace poplar;
using namespace poplar::program;

namespace {

std::vector<double> Numbers(std::size_t size) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < size; ++i) numbers.push_back(static_cast<double>(i));
  return numbers;
}

class Slices {
 public:
  explicit Slices(Test& test) : test_(test), g_(test.graph), p_(test.prog) {}

  Tensor Table(const Type& type) {
    const Tensor t = popops::createSliceableTensor(g_, type, {5, 6, 7}, {0, 1}, {2, 3});
    p_.add(Copy(test_.Variable(type, {5, 6, 7}, Numbers(210)), t));
    return t;
  }

  void Dynamic() {
    const Tensor offset = test_.Variable(UNSIGNED_INT, {2}, {2, 4});
    for (const Type& type : {FLOAT, HALF, INT}) {
      const std::string name = " " + type.toString();
      const Tensor t = Table(type);
      test_.Show("slice" + name, popops::dynamicSlice(g_, t, offset, {0, 1}, {2, 2}, p_));
      const Tensor s = test_.Variable(type, {2, 2, 7}, std::vector<double>(28, 9));
      popops::dynamicUpdate(g_, t, s, offset, {0, 1}, {2, 2}, p_);
      test_.Show("update" + name, t);
    }
    const Tensor t = Table(UNSIGNED_CHAR);
    const Tensor last = test_.Variable(INT, {1}, {5});
    test_.Show("wrapped", popops::cast(g_, popops::dynamicSlice(g_, t, last, {1}, {3}, p_), INT, p_));
    const Tensor out = g_.addVariable(FLOAT, {5, 6, 1}, "out");
    poputil::mapTensorLinearly(g_, out);
    popops::dynamicSliceWithOutput(g_, out, Table(FLOAT), last, {2}, {1}, p_);
    test_.Show("output", out);
    Refused([&] { popops::dynamicSlice(g_, t, offset, {0, 3}, {1, 1}, p_); }, "is one of the shape {5,6,7}");
    Refused([&] { popops::dynamicSlice(g_, t, offset, {0}, {1}, p_); }, "an offset for each of 1 dimensions");
    Refused([&] { popops::dynamicSlice(g_, t, t[0][0].slice(0, 1), {0}, {1}, p_); }, "offsets are of UNSIGNED_INT");
    Refused([&] { popops::dynamicUpdate(g_, t, t, last, {0}, {1}, p_); }, "is not of the type and the shape");
  }

  void Multi() {
    const popops::SlicePlan plan = popops::embedding::plan(g_, FLOAT, 20, 6, {8}, {});
    for (const Type& type : {FLOAT, HALF, INT}) {
      const std::string name = " " + type.toString();
      const Tensor t = popops::createSliceableTensor(g_, type, {20, 6}, {0}, {1}, plan, {});
      p_.add(Copy(test_.Variable(type, {20, 6}, Numbers(120)), t));
      const Tensor offsets = popops::createIndicesTensor(g_, {0}, 8, plan, {});
      p_.add(Copy(test_.Variable(UNSIGNED_INT, {8, 1}, {3, 19, 3, 0, 20, 7, 3, 1}), offsets));
      test_.Show("look-up" + name, popops::multiSlice(g_, t, offsets, {0}, {1}, p_, plan, {}));
      const popops::SlicePlan none;
      const OptionFlags remap{{"remapOutOfBoundIndices", "true"}};
      test_.Show("remapped" + name, popops::multiSlice(g_, t, offsets, {0}, {1}, p_, none, remap));
      const Tensor s = popops::createSliceTensor(g_, type, {20, 6}, {0}, {1}, 8, plan, {});
      p_.add(Copy(test_.Variable(type, {8, 1, 6}, Numbers(48)), s));
      const auto shown = [&](const std::string& title, const auto& call) {
        const Tensor copy = test_.Copied(t);
        call(copy);
        test_.Show(title + name, copy);
      };
      shown("written", [&](const Tensor& x) { popops::multiUpdate(g_, x, s, offsets, {0}, {1}, p_, plan, {}); });
      shown("most", [&](const Tensor& x) { popops::multiUpdateMax(g_, x, s, offsets, {0}, {1}, p_, plan, {}); });
      const Tensor scale = test_.Variable(type == INT ? INT : HALF, {}, {2});
      shown("added",
            [&](const Tensor& x) { popops::multiUpdateAdd(g_, x, s, offsets, scale, {0}, {1}, p_, plan, {}); });
      Refused([&] { popops::multiUpdate(g_, t, t, offsets, {0}, {1}, p_, plan, {}); }, "a row of " + type.toString());
      Refused([&] { popops::multiSlice(g_, t, offsets, {0}, {2}, p_, plan, {}); }, "rows are slices of size 1");
      Refused([&] { popops::multiSlice(g_, t, t, {0}, {1}, p_, plan, {}); }, "the shape of the offsets is {n} or");
      Refused([&] { popops::multiUpdateAdd(g_, t, s, offsets, offsets, {0}, {1}, p_, plan, {}); },
              "the scale has one element");
    }
    const Tensor wide = test_.Variable(FLOAT, {3, 4}, Numbers(12));
    test_.Show("known", popops::multiSlice(g_, wide, {2u, 0u}, 1, p_));
  }

  void Grouped() {
    const popops::SlicePlan plan = popops::embedding::plan(g_, FLOAT, 3, 10, 4, {5}, {});
    std::ostringstream text;
    text << plan;
    CHECK(text.str() == "3 groups of 10 entries of 4 elements" && plan != popops::SlicePlan());
    const Tensor t = popops::createGroupedSliceableTensor(g_, FLOAT, 3, {10, 4}, {0}, {1}, plan, {});
    CHECK(t.shape() == (std::vector<std::size_t>{3, 10, 4}));
    p_.add(Copy(test_.Variable(FLOAT, {3, 10, 4}, Numbers(120)), t));
    const Tensor offsets = popops::createGroupedIndicesTensor(g_, 3, {0}, 5, plan, {});
    p_.add(Copy(test_.Variable(UNSIGNED_INT, {3, 5, 1}, {1, 9, 1, 0, 3, 4, 4, 4, 4, 4, 7, 8, 9, 0, 1}), offsets));
    test_.Show("grouped", popops::groupedMultiSlice(g_, t, offsets, {0}, {1}, p_, plan, {}));
    const Tensor s = popops::createGroupedSliceTensor(g_, FLOAT, 3, {10, 4}, {0}, {1}, 5, plan, {});
    CHECK(s.shape() == (std::vector<std::size_t>{3, 5, 1, 4}));
    p_.add(Copy(test_.Variable(FLOAT, {3, 5, 1, 4}, Numbers(60)), s));
    popops::groupedMultiUpdateAdd(g_, t, s, offsets, test_.Variable(FLOAT, {}, {0.5}), {0}, {1}, p_, plan, {});
    test_.Show("grouped sums", t);
  }

 private:
  Test& test_;
  Graph& g_;
  Sequence& p_;
};

}  // namespace

int main() {
  Test test(SmallDevice());
  Slices slices(test);
  slices.Dynamic();
  slices.Multi();
  slices.Grouped();
  test.Run();
}
