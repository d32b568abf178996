// Elements as another type.
#include "elements.h"

using namespace poplar;

namespace popops {

template <typename From, typename To>
class Cast : public MultiVertex {
 public:
  Input<Vector<From, VectorLayout::ONE_PTR>> in;
  Output<Vector<To>> out;

  void compute(unsigned worker) {
    const From* const values = &in[0];
    To* const result = &out[0];
    const Share share(out.size(), worker);
    for (unsigned i = share.begin; i < share.end; ++i) result[i] = Converted<To>(values[i]);
  }
};

#define CASTS(FROM)                          \
  template class Cast<FROM, float>;          \
  template class Cast<FROM, half>;           \
  template class Cast<FROM, int>;            \
  template class Cast<FROM, unsigned>;       \
  template class Cast<FROM, bool>;           \
  template class Cast<FROM, char>;           \
  template class Cast<FROM, signed char>;    \
  template class Cast<FROM, unsigned char>;  \
  template class Cast<FROM, short>;          \
  template class Cast<FROM, unsigned short>; \
  template class Cast<FROM, long long>;      \
  template class Cast<FROM, unsigned long long>;
CASTS(float)
CASTS(half)
CASTS(int)
CASTS(unsigned)
CASTS(bool)
CASTS(char)
CASTS(signed char)
CASTS(unsigned char)
CASTS(short)
CASTS(unsigned short)
CASTS(long long)
CASTS(unsigned long long)

}  // namespace popops
