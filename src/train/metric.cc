// Metric: sums that operations of the engine add to.

#include "train/metric.h"

#include <limits>

#include "graph/math.h"
#include "run/push.h"
#include "train/quietly.h"

namespace plait {
namespace {

struct UpdateParams {
  std::shared_ptr<const Measure> measure;
  size_t num_labels = 0;
};

// Inputs: labels, then predictions. Outputs: sums, which are added to.
void Forward(const void* params, const KernelArgs& args) {
  const auto& p = *static_cast<const UpdateParams*>(params);
  std::vector<double> batch;
  for (const View& sums : args.out) {
    const auto n = static_cast<size_t>(sums.size());
    if (batch.size() != n) {
      batch.assign(n, 0);
      p.measure->Add(args.in.first(p.num_labels), args.in.subspan(p.num_labels), batch);
    }
    p.measure->Join(batch, {sums.data<double>(), n});
  }
}

const OpDef& UpdateOp() {
  static const OpDef& op = *[] {
    auto* made = new OpDef;
    made->name = "metric";
    made->cpu = {{"plain", Forward, nullptr}};
    made->may_fail = true;
    return made;
  }();
  return op;
}

}  // namespace

KindTable& Measure::Kinds() {
  static auto& table = *new KindTable("metric");
  return table;
}

NDArray Measure::NewSums() const {
  const Quietly quietly(Device{});
  return zeros({{NumSums()}, DType::kFloat64}).array();
}

void Measure::CheckBatch(std::span<const NDArray> labels,
                         std::span<const NDArray> preds) const {
  if (!UsesLabels()) return;
  Check(labels.size() == preds.size(), kind().name, ": got ", labels.size(),
        " labels and ", preds.size(), " predictions; as many were expected");
  for (size_t i = 0; i < preds.size(); ++i) CheckPair(labels[i], preds[i]);
}

void Measure::Join(std::span<const double> batch, std::span<double> sums) const {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += batch[i];
}

double Measure::ValueOf(std::span<const double> sums) const {
  const Total total = TotalOf(sums);
  return total.count == 0 ? std::numeric_limits<double>::quiet_NaN()
                          : total.sum / total.count;
}

void UpdateSums(const std::shared_ptr<const Measure>& measure,
                std::span<const NDArray> labels, std::span<const NDArray> preds,
                std::span<NDArray> sums) {
  measure->CheckBatch(labels, preds);
  for (NDArray& x : sums) x = measure->Grown(labels, preds, x);
  std::vector<NDArray> in(labels.begin(), labels.end());
  in.insert(in.end(), preds.begin(), preds.end());
  Specs in_specs, out_specs;
  for (const NDArray& x : in) {
    x.body()->Materialize();
    in_specs.push_back({x.shape(), x.dtype()});
  }
  for (const NDArray& x : sums) {
    x.body()->Materialize();
    out_specs.push_back({x.shape(), x.dtype()});
  }
  PushNode(UpdateOp(), MakeParams(UpdateParams{measure, labels.size()}), in, sums,
           in_specs, out_specs, false, {});
}

std::vector<double> ReadSums(const NDArray& sums) {
  std::vector<double> values(static_cast<size_t>(sums.size()));
  sums.CopyToHost(values.data());
  return values;
}

Metric::Metric(std::string_view name, std::span<const NamedAttr> attrs)
    : measure_(CreateNamed<Measure>(name, attrs)) {
  Reset();
}

void Metric::Update(std::span<const NDArray> labels, std::span<const NDArray> preds) {
  NDArray sums[] = {local_, global_};
  UpdateSums(measure_, labels, preds, sums);
  local_ = sums[0];
  global_ = sums[1];
}

double Metric::Value() const {
  return measure_->ValueOf(ReadSums(local_));
}
double Metric::GlobalValue() const {
  return measure_->ValueOf(ReadSums(global_));
}

void Metric::Reset() {
  ResetLocal();
  global_ = measure_->NewSums();
}
void Metric::ResetLocal() {
  local_ = measure_->NewSums();
}

}  // namespace plait
