// Evaluates Reshape's codes.

#include "ops/shape/reshape_codes.h"

#include <algorithm>

namespace plait {
namespace {

Shape Reversed(Shape shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

class Evaluation {
 public:
  Evaluation(const Shape& x, const Shape& codes, const char* op)
      : x_(x), codes_(codes), op_(op) {}

  Shape Run() {
    for (int i = 0; i < codes_.rank(); ++i) i += Step(i);
    if (inferred_ >= 0) Infer();
    return y_;
  }

 private:
  // Handles code i; returns how many codes it took beside itself.
  int Step(int i) {
    const int64_t code = codes_[i];
    if (code > 0) {
      y_.Append(code);
      ++next_;
      return 0;
    }
    switch (code) {
      case 0:
        y_.Append(Take());
        return 0;
      case -1:
        CheckCodes(inferred_ < 0, "at most one -1");
        inferred_ = y_.rank();
        y_.Append(1);
        ++next_;
        return 0;
      case -2:
        while (next_ < x_.rank()) y_.Append(Take());
        return 0;
      case -3: {
        const int64_t a = Take(), b = Take();
        y_.Append(a == kUnknownSize || b == kUnknownSize ? kUnknownSize : a * b);
        return 0;
      }
      case -4:
        CheckCodes(i + 2 < codes_.rank(), "two sizes after -4");
        Split(codes_[i + 1], codes_[i + 2]);
        return 2;
      default:
        CheckCodes(false, "sizes and the codes 0 to -4");
        return 0;
    }
  }

  int64_t Take() {
    CheckCodes(next_ < x_.rank(), "no more codes than x has axes");
    return x_[next_++];
  }

  void Split(int64_t a, int64_t b) {
    const int64_t whole = Take();
    CheckCodes(a > 0 || b > 0, "at most one -1 in a split");
    CheckCodes((a > 0 || a == -1) && (b > 0 || b == -1), "sizes after -4");
    if (whole != kUnknownSize) {
      if (a == -1) a = whole / b;
      if (b == -1) b = whole / a;
      CheckCodes(a * b == whole, "a split into sizes of that product");
    }
    y_.Append(a == -1 ? kUnknownSize : a);
    y_.Append(b == -1 ? kUnknownSize : b);
  }

  void Infer() {
    if (!x_.known() || !y_.known()) {
      y_[inferred_] = kUnknownSize;
      return;
    }
    const int64_t others = y_.size();
    // Without elements nothing follows for the -1; 0 is as NumPy would not decide.
    y_[inferred_] = others == 0 ? 0 : x_.size() / others;
  }

  void CheckCodes(bool fits, const char* expected) {
    Check(fits, op_, ": codes ", codes_, " do not fit x of shape ", x_, "; ", expected,
          " were expected");
  }

  const Shape& x_;
  const Shape& codes_;
  const char* op_;
  Shape y_;
  int next_ = 0;       // the next axis of x
  int inferred_ = -1;  // the axis of y that is -1
};

}  // namespace

Shape ReshapedShape(const Shape& x, const Shape& codes, bool reverse, const char* op) {
  Shape y;
  if (reverse) {
    const Shape from = Reversed(x), mirrored = Reversed(codes);
    y = Reversed(Evaluation(from, mirrored, op).Run());
  } else {
    y = Evaluation(x, codes, op).Run();
  }
  Shape same = x;
  CheckSameSize(same, y, op);
  return y;
}

void CheckSameSize(Shape& x, const Shape& y, const char* op) {
  if (!y.known()) return;
  if (x.known()) {
    Check(x.size() == y.size(), op, ": x of shape ", x, " has ", x.size(),
          " elements and shape ", y, " has ", y.size(), "; as many were expected");
    return;
  }
  int unknown = -1;
  int64_t others = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] != kUnknownSize) {
      others *= x[i];
    } else if (unknown >= 0) {
      return;
    } else {
      unknown = i;
    }
  }
  if (unknown < 0 || others == 0) return;
  Check(y.size() % others == 0, op, ": x of shape ", x, " cannot become shape ", y);
  x[unknown] = y.size() / others;
}

}  // namespace plait
