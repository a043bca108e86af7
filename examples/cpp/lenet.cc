// Trains LeNet on Fashion-MNIST in C++: a Symbol, an Executor, an optimizer.
//
// usage: lenet [EPOCHS [IMAGES [FOLDER]]]. Prints the accuracy on the 10,000 test
// images after each epoch and leaves lenet-symbol.json and lenet-0000.params, which
// Python loads by plait.model.load_checkpoint("lenet", 0).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <plait/plait.hpp>
#include <random>
#include <string>
#include <vector>

using namespace plait;

constexpr int64_t kBatch = 64, kSide = 28, kPixels = kSide * kSide;

// The bytes of a gzipped IDX file after its header: a magic number, and sizes of which
// the first counts the items.
std::vector<uint8_t> ReadIdx(const std::string& path) {
  std::vector<uint8_t> bytes;
  if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
    std::fclose(file);
    std::FILE* pipe = popen(("gzip -dc '" + path + "'").c_str(), "r");
    Check(pipe != nullptr, ErrorKind::kIo, path, ": gzip does not start");
    uint8_t part[1 << 16];
    while (const size_t n = std::fread(part, 1, sizeof part, pipe))
      bytes.insert(bytes.end(), part, part + n);
    pclose(pipe);
  }
  Check(bytes.size() > 4, ErrorKind::kIo, path,
        ": cannot be read; apt-get install dataset-fashion-mnist");
  const size_t header = 4 + 4 * static_cast<size_t>(bytes[3]);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return bytes;
}

struct Dataset {
  std::vector<float> images, labels;  // mean 0 and deviation 1; 0 to 9
  size_t size() const { return labels.size(); }
};

Dataset Load(const std::string& prefix) {
  Dataset data;
  for (uint8_t pixel : ReadIdx(prefix + "-images-idx3-ubyte.gz"))
    data.images.push_back((static_cast<float>(pixel) / 255 - 0.2860f) / 0.3530f);
  for (uint8_t label : ReadIdx(prefix + "-labels-idx1-ubyte.gz"))
    data.labels.push_back(label);
  Check(data.images.size() == data.size() * kPixels, ErrorKind::kIo, prefix,
        ": images and labels do not go together");
  return data;
}

// LeCun et al. 1998, with rectifiers: two convolutions with pooling, two dense layers.
Symbol LeNet() {
  Symbol x = var("data");
  for (int filters : {20, 50}) {
    x = op("Convolution", {x}, {{"kernel", {5, 5}}, {"num_filter", filters}});
    x = op("Activation", {x}, {{"act_type", "relu"}});
    x = op("Pooling", {x},
           {{"kernel", {2, 2}}, {"stride", {2, 2}}, {"pool_type", "max"}});
  }
  x = op("FullyConnected", {x}, {{"num_hidden", 500}});
  x = op("Activation", {x}, {{"act_type", "relu"}});
  x = op("FullyConnected", {x}, {{"num_hidden", 10}});
  return op("SoftmaxOutput", {x}, {{"normalization", "batch"}}, "softmax");
}

// Copies the examples of some numbers into the executor's inputs.
void Feed(const Executor& executor, const Dataset& data, const size_t* numbers) {
  std::vector<float> images(kBatch * kPixels), labels(kBatch);
  for (size_t i = 0; i < kBatch; ++i) {
    const float* image = &data.images[numbers[i] * kPixels];
    std::copy(image, image + kPixels, &images[i * kPixels]);
    labels[i] = data.labels[numbers[i]];
  }
  executor.input("data").CopyFromHost(images.data());
  executor.input("softmax_label").CopyFromHost(labels.data());
}

// The share of a data set's whole batches that is classified rightly.
double Accuracy(Executor& executor, const Dataset& data) {
  std::vector<size_t> numbers(kBatch);
  size_t right = 0, seen = 0;
  for (; seen + kBatch <= data.size(); seen += kBatch) {
    std::iota(numbers.begin(), numbers.end(), seen);
    Feed(executor, data, numbers.data());
    executor.Forward(false);
    const NDArray best = Call("argmax", {executor.outputs()[0]}, {{"axis", 1}});
    const std::vector<float> guesses = ToVector<float>(best);
    for (size_t i = 0; i < kBatch; ++i) right += guesses[i] == data.labels[seen + i];
  }
  return static_cast<double>(right) / static_cast<double>(seen);
}

int Run(int epochs, size_t images, const std::string& folder) {
  const auto start = std::chrono::steady_clock::now();
  const Dataset train = Load(folder + "/train"), test = Load(folder + "/t10k");
  const Symbol net = LeNet();
  auto executor = Bind(net, {.shapes = {{"data", {kBatch, 1, kSide, kSide}}},
                             .gradients = Gradients::kParameters});
  SeedRandom(1);
  Initialize(*executor, "xavier");
  Updater sgd =
      MakeUpdater("sgd", {{"learning_rate", 0.05}, {"momentum", 0.9}, {"wd", 1e-4}});

  std::vector<size_t> order(std::min(images, train.size()));
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 generator(1);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), generator);
    for (size_t i = 0; i + kBatch <= order.size(); i += kBatch) {
      Feed(*executor, train, &order[i]);
      executor->Forward(true);
      executor->Backward({});
      Step(sgd, *executor);
    }
    std::printf("epoch %d: test accuracy %.2f %%\n", epoch,
                100 * Accuracy(*executor, test));
    sgd.optimizer().Set("learning_rate", {0.05 / (1 + epoch)});
  }
  SaveSymbol(net, "lenet-symbol.json");
  SaveParams("lenet-0000.params", ParametersOf(*executor));
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  std::printf("%.1f s\n", seconds.count());
  return 0;
}

int main(int count, char** arguments) {
  RestartWithoutSpinning(arguments);
  const int epochs = count > 1 ? std::atoi(arguments[1]) : 3;
  const size_t images = count > 2 ? std::strtoul(arguments[2], nullptr, 10) : 60000;
  const std::string folder =
      count > 3 ? arguments[3] : "/usr/share/datasets/fashion-mnist";
  try {
    return Run(epochs, images, folder);
  } catch (const Error& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
