// The few things that a test in C++ needs: TEST registers one, CHECK* note what fails and go on.
#ifndef IPU_TF_TESTS_CPP_CHECK_H_
#define IPU_TF_TESTS_CPP_CHECK_H_

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace ipu_tf::testing {

struct Test {
  const char* name;
  void (*run)();
};

std::vector<Test>& Tests();

struct Registration {
  Registration(const char* name, void (*run)()) { Tests().push_back({name, run}); }
};

// Notes that the running test failed.
void Fail(const char* file, int line, const std::string& what);

// What the checks below are about (a shape, an instruction set), for the messages of those that fail.
class Context {
 public:
  explicit Context(const std::string& text);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

// Whether two numbers are equal; NaNs are.
template <typename A, typename B>
bool Same(const A& a, const B& b) {
  return a == b || (a != a && b != b);
}

// Notes the first element in which two vectors differ by more than `tolerance[i]`.
template <typename T>
void CheckClose(const char* file, int line, const std::vector<T>& got, const std::vector<double>& wanted,
                const std::vector<double>& tolerance) {
  if (got.size() < wanted.size()) return Fail(file, line, "there are too few elements");
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - wanted[i]);
    if (error <= tolerance[i]) continue;
    std::ostringstream text;
    text << "element " << i << " is " << got[i] << ", should be " << wanted[i] << " +- " << tolerance[i];
    return Fail(file, line, text.str());
  }
}

// Notes the first element in which two vectors differ.
template <typename T>
void CheckSame(const char* file, int line, const std::vector<T>& got, const std::vector<T>& wanted) {
  std::ostringstream text;
  text.precision(9);
  if (got.size() != wanted.size()) {
    text << "there are " << got.size() << " elements, should be " << wanted.size();
    return Fail(file, line, text.str());
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (Same(got[i], wanted[i])) continue;
    text << "element " << i << " is " << +got[i] << ", should be " << +wanted[i];
    return Fail(file, line, text.str());
  }
}

}  // namespace ipu_tf::testing

#define TEST(name)                                                      \
  static void name();                                                   \
  static ::ipu_tf::testing::Registration name##Registered(#name, name); \
  static void name()

#define CHECK(condition) \
  if (!(condition)) ::ipu_tf::testing::Fail(__FILE__, __LINE__, #condition)
#define CHECK_SAME(got, wanted) ::ipu_tf::testing::CheckSame(__FILE__, __LINE__, got, wanted)
#define CHECK_CLOSE(got, wanted, tolerance) ::ipu_tf::testing::CheckClose(__FILE__, __LINE__, got, wanted, tolerance)

#endif  // IPU_TF_TESTS_CPP_CHECK_H_
