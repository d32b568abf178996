// What the test programs check with.
#ifndef IPU_TF_TESTS_POPLAR_CHECK_H_
#define IPU_TF_TESTS_POPLAR_CHECK_H_

#include <cstdlib>
#include <iostream>

#define CHECK(CONDITION)                                                                  \
  do {                                                                                    \
    if (!(CONDITION)) {                                                                   \
      std::cerr << __FILE__ << ":" << __LINE__ << ": does not hold: " #CONDITION << "\n"; \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (false)

#endif  // IPU_TF_TESTS_POPLAR_CHECK_H_
