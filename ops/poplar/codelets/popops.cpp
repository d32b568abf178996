// The codelets that graphs have from popops::addCodelets on: one value for all. Others come from files of their own
// with the functions that need them.
#include "elements.h"

using namespace poplar;

namespace popops {

template <typename T>
class Fill : public MultiVertex {
 public:
  Output<Vector<T>> out;
  T value;

  void compute(unsigned worker) {
    T* const result = &out[0];
    const T one = value;
    const Share share(out.size(), worker);
    for (unsigned i = share.begin; i < share.end; ++i) result[i] = one;
  }
};

template class Fill<float>;
template class Fill<half>;
template class Fill<int>;
template class Fill<unsigned>;
template class Fill<bool>;
template class Fill<char>;
template class Fill<unsigned char>;
template class Fill<signed char>;
template class Fill<short>;
template class Fill<unsigned short>;
template class Fill<long long>;
template class Fill<unsigned long long>;

}  // namespace popops
