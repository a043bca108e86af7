// BodyGradient: what the gradients of operators that hold bodies (a choice, loops)
// share.
//
// A holder H has num_inputs, num_outputs(), draws(), is_host(), Writes(input,
// training), and kGradientName, the gradient operator's name. Its gradient is an
// operator of its own, which reads the head gradients, the holder's inputs and, if it
// draws, its random stream, and gives the gradients of the inputs for which one is
// wanted.

#ifndef PLAIT_RUN_BODY_GRADIENT_H_
#define PLAIT_RUN_BODY_GRADIENT_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "run/body.h"
#include "run/loop.h"

namespace plait {

// The parameters of the gradient operator.
template <typename H>
struct BodyGradient {
  Ref<const H> holder;
  std::vector<bool> wanted;  // by the holder's input
  bool training = false;
};

using BodyMemory = std::unique_ptr<cpu::Scratch>;

inline BodyMemory Bytes(int64_t bytes) {
  return std::make_unique<cpu::Scratch>(static_cast<size_t>(bytes));
}

// What the gradient operator reads and writes, by the holder's inputs and outputs.
template <typename H>
class BodyGradientArgs {
 public:
  BodyGradientArgs(const BodyGradient<H>& p, const KernelArgs& args)
      : heads(args.in.subspan(0, p.holder->num_outputs())), out_(args.out) {
    const H& holder = *p.holder;
    const auto given = args.in.subspan(holder.num_outputs(), holder.num_inputs);
    in.assign(given.begin(), given.end());
    int next = 0;
    for (bool wanted : p.wanted) place_.push_back(wanted ? next++ : -1);
    if (holder.draws())
      random = StreamIn(args.in[holder.num_outputs() + holder.num_inputs]);
    // A second run must not show in auxiliary states.
    for (int i = 0; i < holder.num_inputs; ++i) {
      if (!holder.Writes(i, p.training)) continue;
      copies_.push_back(Bytes(in[i].bytes()));
      char* copy = copies_.back()->template As<char>();
      std::memcpy(copy, in[i].ptr, static_cast<size_t>(in[i].bytes()));
      in[i].ptr = copy;
    }
  }

  bool Wants(int input) const { return place_[input] >= 0; }
  // REQUIRES: Wants(input).
  const View& Gradient(int input) const { return out_[place_[input]]; }
  void ClearGradients() const {
    for (const View& dx : out_) std::memset(dx.ptr, 0, static_cast<size_t>(dx.bytes()));
  }
  // REQUIRES: Wants(input). `part`: as many numbers as the gradient has.
  void AddToGradient(int input, const char* part) const {
    const View& dx = Gradient(input);
    AddTo(static_cast<char*>(dx.ptr), part, dx.dtype, dx.size());
  }

  std::span<const View> heads;
  std::vector<View> in;
  RandomStream random;

 private:
  std::span<const View> out_;
  std::vector<int> place_;  // of an input's gradient among the outputs, or -1
  std::vector<BodyMemory> copies_;
};

// The gradient operator, without its kernel.
template <typename H>
OpSpec<BodyGradient<H>> BodyGradientOp(const char* doc) {
  using P = BodyGradient<H>;
  return {
      .name = H::kGradientName,
      .doc = doc,
      .inputs = {{"data", Types::kAny,
                  "Head gradients, the operator's inputs, and its random stream."}},
      .variable_inputs = true,
      .num_outputs =
          [](const P& p) {
            return static_cast<int>(std::count(p.wanted.begin(), p.wanted.end(), true));
          },
      .types =
          [](const P& p, Specs& in, Specs& out) {
            size_t next = 0;
            for (size_t i = 0; i < p.wanted.size(); ++i)
              if (p.wanted[i]) out[next++] = in[p.holder->num_outputs() + i];
          },
      .host_if = [](const P& p) { return p.holder && p.holder->is_host(); },
      .finish =
          [](P&, const std::vector<Symbol>&) {
            Fail(ErrorKind::kValue, H::kGradientName, ": it cannot be called by name");
          },
  };
}

// The gradients of the holder's operator by its gradient operator.
template <typename H>
Values GradientBy(const OpDef& op, const Ref<const H>& holder, const GradArgs& g) {
  const int num_inputs = holder->num_inputs, num_outputs = holder->num_outputs();
  BodyGradient<H> p{holder, {}, g.training};
  for (int i = 0; i < num_inputs; ++i)
    p.wanted.push_back(g.wants(i) && IsFloat(g.in_spec(i).dtype));
  Values in, result(static_cast<size_t>(num_inputs));
  if (std::count(p.wanted.begin(), p.wanted.end(), true) == 0) return result;
  for (int k = 0; k < num_outputs; ++k) in.push_back(g.dout(k));
  for (int i = 0; i < num_inputs; ++i) in.push_back(g.in(i));
  if (holder->draws()) in.push_back(g.out(num_outputs));
  const std::vector<bool> wanted = p.wanted;
  Values found = Apply(op, MakeParams(std::move(p)), in);
  size_t next = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) result[i] = std::move(found[next++]);
  return result;
}

}  // namespace plait

#endif  // PLAIT_RUN_BODY_GRADIENT_H_
