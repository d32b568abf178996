// Views of tensors against lists of numbers: a variable holds its own indices, and a read of a view gives them.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poputil/TileMapping.hpp>
#include <random>
#include <vector>

#include "check.h"

using namespace poplar;

namespace {

// A view, and the numbers that it must read.
struct Expected {
  Tensor view;
  std::vector<std::size_t> shape;
  std::vector<int> numbers;
};

std::size_t Size(const std::vector<std::size_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<std::size_t>());
}

// The numbers at the places that `from` names for each place of the new shape.
template <typename From>
std::vector<int> Gathered(const Expected& old, const std::vector<std::size_t>& shape, const From& from) {
  std::vector<int> numbers;
  std::vector<std::size_t> place(shape.size(), 0);
  for (std::size_t i = 0; i < Size(shape); ++i) {
    std::size_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      place[d] = rest % shape[d];
      rest /= shape[d];
    }
    const std::vector<std::size_t> at = from(place);
    std::size_t flat = 0;
    for (std::size_t d = 0; d < at.size(); ++d) flat = flat * old.shape[d] + at[d];
    numbers.push_back(old.numbers[flat]);
  }
  return numbers;
}

Expected Changed(const Expected& old, const Tensor& view, const std::vector<std::size_t>& shape,
                 const std::function<std::vector<std::size_t>(std::vector<std::size_t>)>& from) {
  return {view, shape, Gathered(old, shape, from)};
}

Expected Step(const Expected& old, std::mt19937& random) {
  const auto pick = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
  const std::size_t rank = old.shape.size();
  const std::size_t d = rank == 0 ? 0 : pick(rank);
  const unsigned dim = static_cast<unsigned>(d);
  std::vector<std::size_t> shape = old.shape;
  switch (rank == 0 ? 5 : pick(8)) {
    case 0: {  // slice
      const std::size_t begin = pick(shape[d]);
      const std::size_t end = begin + 1 + pick(shape[d] - begin);
      shape[d] = end - begin;
      return Changed(old, old.view.slice(begin, end, dim), shape, [=](auto at) { return at[d] += begin, at; });
    }
    case 1: {  // dimShuffle
      std::vector<unsigned> order(rank);
      std::iota(order.begin(), order.end(), 0u);
      std::shuffle(order.begin(), order.end(), random);
      for (std::size_t i = 0; i < rank; ++i) shape[i] = old.shape[order[i]];
      return Changed(old, old.view.dimShuffle(order), shape, [=](auto at) {
        auto from = at;
        for (std::size_t i = 0; i < order.size(); ++i) from[order[i]] = at[i];
        return from;
      });
    }
    case 2: {  // reverse
      const std::size_t last = shape[d] - 1;
      return Changed(old, old.view.reverse(dim), shape, [=](auto at) { return at[d] = last - at[d], at; });
    }
    case 3: {  // subSample
      const std::size_t stride = 1 + pick(3);
      shape[d] = (shape[d] + stride - 1) / stride;
      return Changed(old, old.view.subSample(static_cast<unsigned>(stride), dim), shape,
                     [=](auto at) { return at[d] *= stride, at; });
    }
    case 4: {  // broadcast
      if (old.numbers.size() > 200) return old;
      const std::size_t n = old.shape[d];
      shape[d] *= 2;
      return Changed(old, old.view.broadcast(2, dim), shape, [=](auto at) { return at[d] %= n, at; });
    }
    case 5:  // flatten, and a dimension of one before
      return {old.view.flatten().expand({0}), {1, old.numbers.size()}, old.numbers};
    case 6: {  // reshape: split a dimension
      std::size_t factor = 1;
      while (factor < shape[d] && (factor == 1 || shape[d] % factor != 0)) ++factor;
      if (factor == 0 || shape[d] % factor != 0) return old;
      shape[d] /= factor;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), factor);
      if (shape.size() > 5) return old;
      return {old.view.reshape(shape), shape, old.numbers};
    }
    default: {  // concat with itself
      if (old.numbers.size() > 200) return old;
      const std::size_t n = old.shape[d];
      shape[d] *= 2;
      return Changed(old, concat(old.view, old.view, dim), shape, [=](auto at) { return at[d] %= n, at; });
    }
  }
}

}  // namespace

int main() {
  const Device device = IPUModel().createDevice();
  Graph graph(device);
  const Tensor base = graph.addVariable(INT, {4, 6, 5}, "base");
  poputil::mapTensorLinearly(graph, base);
  std::vector<int> numbers(base.numElements());
  std::iota(numbers.begin(), numbers.end(), 0);
  graph.setInitialValue(base, numbers);
  std::mt19937 random(7);
  std::vector<Expected> all;
  for (int i = 0; i < 200; ++i) {
    Expected view{base, base.shape(), numbers};
    for (int step = 0; step < 6; ++step) {
      view = Step(view, random);
      CHECK(view.view.shape() == view.shape);
    }
    graph.createHostRead(std::to_string(i), view.view);
    std::vector<int> sorted = view.numbers;
    std::sort(sorted.begin(), sorted.end());
    CHECK(view.view.containsAliases() == (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()));
    std::size_t inside = 0;
    for (const Interval& one : view.view.getContiguousRegions()) inside += one.size();
    CHECK(inside == view.numbers.size());
    all.push_back(view);
  }
  Engine engine(graph, program::Sequence());
  engine.load(device);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<int> found(all[i].numbers.size());
    engine.readTensor(std::to_string(i), found.data(), found.data() + found.size());
    CHECK(found == all[i].numbers);
  }
  // Mappings cover each element once.
  std::vector<int> seen(base.numElements(), 0);
  for (const auto& tile : graph.getTileMapping(base)) {
    for (const Interval& one : tile) {
      for (std::size_t i = one.begin(); i < one.end(); ++i) ++seen[i];
    }
  }
  CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
  std::cout << "views hold\n";
}
