// Runs the tests whose names contain one of the arguments, all without arguments.
#include <cstdio>
#include <cstring>

#include "check.h"

namespace ipu_tf::testing {
namespace {

int failures = 0;
std::vector<std::string> contexts;

bool IsWanted(const char* name, int count, char** parts) {
  for (int i = 0; i < count; ++i) {
    if (std::strstr(name, parts[i]) != nullptr) return true;
  }
  return count == 0;
}

}  // namespace

std::vector<Test>& Tests() {
  static std::vector<Test> tests;
  return tests;
}

void Fail(const char* file, int line, const std::string& what) {
  ++failures;
  std::printf("%s:%d: %s", file, line, what.c_str());
  for (const std::string& context : contexts) std::printf(" [%s]", context.c_str());
  std::printf("\n");
}

Context::Context(const std::string& text) { contexts.push_back(text); }
Context::~Context() { contexts.pop_back(); }

int Main(int count, char** parts) {
  int run = 0, failed = 0;
  for (const Test& test : Tests()) {
    if (!IsWanted(test.name, count, parts)) continue;
    const int before = failures;
    test.run();
    ++run;
    if (failures == before) continue;
    ++failed;
    std::printf("FAILED %s\n", test.name);
  }
  if (run == 0) std::printf("no test has one of these names\n");
  std::printf("%d of %d tests failed\n", failed, run);
  return failed > 0 || run == 0;
}

}  // namespace ipu_tf::testing

int main(int count, char** arguments) { return ipu_tf::testing::Main(count - 1, arguments + 1); }
