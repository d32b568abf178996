// Random numbers of poprand.
#include <poprand/RandomGen.hpp>
#include <poprand/codelets.hpp>

#include "results.h"

using namespace poplar;
using namespace poplar::program;

int main() {
  Test test(SmallDevice());
  Graph& g = test.graph;
  Sequence& p = test.prog;
  const Tensor like = g.addVariable(FLOAT, {10000}, "like");
  poputil::mapTensorLinearly(g, like);
  const Tensor seed = test.Variable(UNSIGNED_INT, {2}, {17, 4});
  const Tensor other = test.Variable(UNSIGNED_INT, {2}, {17, 5});
  Refused([&] { poprand::uniform(g, &seed, 0, like, FLOAT, 0, 1, p); }, "Call poprand::addCodelets(graph) first");
  poprand::addCodelets(g);
  for (const Type& type : {FLOAT, HALF}) {
    const std::string name = " " + type.toString();
    test.Show("uniform" + name, poprand::uniform(g, &seed, 1, like, type, -1, 3, p));
    test.Show("normal" + name, poprand::normal(g, &seed, 2, like, type, 2, 3, p));
    test.Show("truncated" + name, poprand::truncatedNormal(g, &seed, 3, like, type, 2, 3, 1.5, p));
    test.Show("bernoulli" + name, poprand::bernoulli(g, &seed, 4, like, type, 0.3, p));
    const Tensor ones = g.clone(type, like);
    g.setInitialValue(ones, 1);
    test.Show("dropout" + name, poprand::dropout(g, &seed, 5, ones, like, 0.7, 2, p));
  }
  const auto uniform = [&](const Tensor* from, unsigned modifier, const Tensor& reference) {
    return poprand::uniform(g, from, modifier, reference, FLOAT, -1, 3, p);
  };
  test.Show("dice", poprand::uniform(g, &seed, 6, like, INT, -2, 4, p));
  test.Show("same", uniform(&seed, 1, like));
  const Tensor elsewhere = g.addVariable(FLOAT, {10000}, "elsewhere");
  poputil::mapTensorLinearlyWithOffset(g, elsewhere, 1, 7, 2);
  test.Show("elsewhere", uniform(&seed, 1, elsewhere));
  test.Show("other seed", uniform(&other, 1, like));
  test.Show("other modifier", uniform(&seed, 2, like));
  test.Show("running", uniform(nullptr, 1, like));
  test.Show("running on", uniform(nullptr, 1, like));
  poprand::setSeed(g, seed, 3, p);
  test.Show("seeded", uniform(nullptr, 1, like));
  poprand::setSeed(g, seed, 3, p);
  test.Show("seeded again", uniform(nullptr, 1, like));
  Refused([&] { poprand::normal(g, &seed, 0, like, INT, 0, 1, p); }, "there are no random numbers of this kind of int");
  Refused([&] { poprand::setSeed(g, like, 0, p); }, "a seed has two elements of UNSIGNED_INT");
  Refused([&] { poprand::truncatedNormal(g, &seed, 0, like, FLOAT, 0, 1, 0, p); }, "alpha must be positive");
  Refused([&] { poprand::dropout(g, &seed, 0, like, seed, 1, 1, p); }, "input and reference must have one shape");
  test.Run();
}
