// The smallest program of a user: it builds against the installed headers and library.

#include <cstdio>

#include "base/options.h"
#include "base/shape.h"

int main() {
  const plait::Shape shape{2, 3};
  std::printf("%lld elements, %s engine\n", static_cast<long long>(shape.size()),
              plait::GetOption(plait::Option::kEngine).c_str());
  return shape.size() == 6 ? 0 : 1;
}
