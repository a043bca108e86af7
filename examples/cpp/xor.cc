// Learns exclusive or in C++, the smallest network that needs a hidden layer.
//
// usage: xor [SEED]. Prints after how many steps all four answers are right, and them;
// fails where 2,000 steps are not enough.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <plait/plait.hpp>
#include <vector>

using namespace plait;

Symbol Network() {
  Symbol x = op("FullyConnected", {var("data")}, {{"num_hidden", 8}});
  x = op("Activation", {x}, {{"act_type", "tanh"}});
  x = op("FullyConnected", {x}, {{"num_hidden", 2}});
  return op("SoftmaxOutput", {x}, {{"normalization", "batch"}}, "softmax");
}

int Run(uint64_t seed) {
  const std::vector<float> data = {0, 0, 0, 1, 1, 0, 1, 1}, labels = {0, 1, 1, 0};
  auto executor = Bind(
      Network(), {.shapes = {{"data", {4, 2}}}, .gradients = Gradients::kParameters});
  SeedRandom(seed);
  Initialize(*executor, "xavier");
  Updater adam = MakeUpdater("adam", {{"learning_rate", 0.05}});
  executor->input("data").CopyFromHost(data.data());
  executor->input("softmax_label").CopyFromHost(labels.data());

  for (int step = 1; step <= 2000; ++step) {
    executor->Forward(true);
    executor->Backward({});
    Step(adam, *executor);
    const std::vector<float> y = ToVector<float>(executor->outputs()[0]);
    bool right = true;  // and by a clear margin
    for (size_t i = 0; i < 4; ++i)
      right &= y[2 * i + static_cast<size_t>(labels[i])] > 0.9f;
    if (!right) continue;
    std::printf("100 %% after %d steps\n", step);
    for (size_t i = 0; i < 4; ++i)
      std::printf("%g xor %g: %.2f\n", data[2 * i], data[2 * i + 1], y[2 * i + 1]);
    return 0;
  }
  std::cerr << "xor: not learnt in 2000 steps\n";
  return 1;
}

int main(int count, char** arguments) {
  RestartWithoutSpinning(arguments);
  try {
    return Run(count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 1);
  } catch (const Error& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
