// ImageLoader: its options by MXNet's names, and batches with the interpreter unlocked.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "bindings.h"
#include "data/image_loader.h"
#include "loader_options.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

using data::AugmentOptions;
using data::ImageLoader;
using data::LoaderOptions;
using data::RecordSetOptions;
using Setter = std::function<void(LoaderOptions&, nb::handle)>;

// A setter of a field of the options, of one of their parts, or of an element there.
template <typename T>
Setter Set(T LoaderOptions::*field) {
  return [field](LoaderOptions& o, nb::handle v) { o.*field = nb::cast<T>(v); };
}
template <typename T>
Setter Set(T AugmentOptions::*field) {
  return [field](LoaderOptions& o, nb::handle v) { o.augment.*field = nb::cast<T>(v); };
}
template <typename T>
Setter Set(T RecordSetOptions::*field) {
  return [field](LoaderOptions& o, nb::handle v) { o.records.*field = nb::cast<T>(v); };
}
Setter SetAt(double (AugmentOptions::*field)[4], int i) {
  return [field, i](LoaderOptions& o, nb::handle v) {
    (o.augment.*field)[i] = nb::cast<double>(v);
  };
}

using A = AugmentOptions;
using L = LoaderOptions;
using R = RecordSetOptions;

const std::unordered_map<std::string, Setter>& Setters() {
  static const auto* const setters = new std::unordered_map<std::string, Setter>{
      {"path_imgrec", Set(&R::records)},
      {"path_imgidx", Set(&R::index)},
      {"path_imglist", Set(&R::list)},
      {"num_parts", Set(&R::num_parts)},
      {"part_index", Set(&R::part_index)},
      {"batch_size", Set(&L::batch_size)},
      {"label_width", Set(&L::label_width)},
      {"round_batch", Set(&L::round_batch)},
      {"shuffle", Set(&L::shuffle)},
      {"seed", Set(&L::seed)},
      {"seed_aug", Set(&L::augment_seed)},
      {"preprocess_threads", Set(&L::threads)},
      {"prefetch_buffer", Set(&L::prefetch)},
      {"prefetch_bytes", Set(&L::prefetch_bytes)},
      {"resize", Set(&A::resize)},
      {"max_rotate_angle", Set(&A::max_rotate_angle)},
      {"max_shear_ratio", Set(&A::max_shear_ratio)},
      {"rotate", Set(&A::rotate)},
      {"rotate_list", Set(&A::rotate_list)},
      {"max_random_scale", Set(&A::max_random_scale)},
      {"min_random_scale", Set(&A::min_random_scale)},
      {"max_aspect_ratio", Set(&A::max_aspect_ratio)},
      {"min_aspect_ratio", Set(&A::min_aspect_ratio)},
      {"max_img_size", Set(&A::max_img_size)},
      {"min_img_size", Set(&A::min_img_size)},
      {"pad", Set(&A::pad)},
      {"fill_value", Set(&A::fill_value)},
      {"random_resized_crop", Set(&A::random_resized_crop)},
      {"rand_crop", Set(&A::rand_crop)},
      {"max_random_area", Set(&A::max_random_area)},
      {"min_random_area", Set(&A::min_random_area)},
      {"max_crop_size", Set(&A::max_crop_size)},
      {"min_crop_size", Set(&A::min_crop_size)},
      {"inter_method", Set(&A::inter_method)},
      {"brightness", Set(&A::brightness)},
      {"contrast", Set(&A::contrast)},
      {"saturation", Set(&A::saturation)},
      {"random_h", Set(&A::random_h)},
      {"random_s", Set(&A::random_s)},
      {"random_l", Set(&A::random_l)},
      {"pca_noise", Set(&A::pca_noise)},
      {"mirror", Set(&A::mirror)},
      {"rand_mirror", Set(&A::rand_mirror)},
      {"mean_r", SetAt(&A::mean, 0)},
      {"mean_g", SetAt(&A::mean, 1)},
      {"mean_b", SetAt(&A::mean, 2)},
      {"mean_a", SetAt(&A::mean, 3)},
      {"std_r", SetAt(&A::std, 0)},
      {"std_g", SetAt(&A::std, 1)},
      {"std_b", SetAt(&A::std, 2)},
      {"std_a", SetAt(&A::std, 3)},
      {"scale", Set(&A::scale)},
      {"max_random_contrast", Set(&A::max_random_contrast)},
      {"max_random_illumination", Set(&A::max_random_illumination)},
      {"orient", Set(&A::orient)},
      {"exact", Set(&A::exact)},
      {"skip_broken",
       [](LoaderOptions& o, nb::handle v) {
         o.skip_broken = o.records.skip_damage = nb::cast<bool>(v);
       }},
      {"dtype",
       [](LoaderOptions& o, nb::handle v) { o.dtype = DTypeFromPython(v.ptr()); }},
      {"data_shape",
       [](LoaderOptions& o, nb::handle v) {
         const Shape shape = ShapeFromPython(v.ptr());
         Check(shape.rank() == 3, "ImageRecordIter: data_shape ", shape,
               "; (channels, height, width) was expected");
         o.augment.channels = shape[0];
         o.augment.height = shape[1];
         o.augment.width = shape[2];
       }},
      {"mean_image",
       [](LoaderOptions& o, nb::handle v) {
         const NDArray mean = nb::cast<NDArray>(v);
         Check(mean.dtype() == DType::kFloat32, ErrorKind::kType,
               "ImageRecordIter: the mean image is of ", Name(mean.dtype()),
               "; float32 was expected");
         std::vector<float> values(static_cast<size_t>(mean.size()));
         mean.CopyToHost(values.data());
         o.augment.mean_image =
             std::make_shared<const std::vector<float>>(std::move(values));
       }},
      {"detection",
       [](LoaderOptions& o, nb::handle v) {
         o.detection = DetectionFrom(nb::cast<nb::dict>(v));
       }},
  };
  return *setters;
}

LoaderOptions OptionsOf(const nb::kwargs& arguments) {
  LoaderOptions options;
  for (const auto& [key, value] : arguments) {
    const std::string name = nb::cast<std::string>(key);
    const auto it = Setters().find(name);
    Check(it != Setters().end(), ErrorKind::kType, "ImageRecordIter: unknown option '",
          name, "'");
    try {
      it->second(options, value);
    } catch (const nb::cast_error&) {
      Fail(ErrorKind::kValue, "ImageRecordIter: ", name, " is ",
           nb::cast<std::string>(nb::str(value)), ", which is of the wrong type");
    }
  }
  return options;
}

// Destroyed with the interpreter unlocked: the workers are waited for.
class Loader {
 public:
  explicit Loader(const LoaderOptions& options) {
    nb::gil_scoped_release unlocked;
    loader_ = std::make_unique<ImageLoader>(options);
  }
  ~Loader() { Close(); }

  void Close() {
    nb::gil_scoped_release unlocked;
    loader_.reset();
  }
  ImageLoader& get() {
    Check(loader_ != nullptr, ErrorKind::kRuntime, "ImageRecordIter: is closed");
    return *loader_;
  }

 private:
  std::unique_ptr<ImageLoader> loader_;
};

}  // namespace

void BindLoader(nb::module_& m) {
  nb::class_<Loader>(m, "ImageLoader")
      .def("__init__",
           [](Loader* self, const nb::kwargs& arguments) {
             new (self) Loader(OptionsOf(arguments));
           })
      .def("next",
           [](Loader& self) -> nb::object {
             std::optional<data::ImageBatch> batch;
             {
               ImageLoader& loader = self.get();
               nb::gil_scoped_release unlocked;
               batch = loader.Next();
             }
             if (!batch) return nb::none();
             return nb::make_tuple(batch->data, batch->label, batch->pad,
                                   nb::cast(batch->ids));
           })
      .def("reset",
           [](Loader& self) {
             ImageLoader& loader = self.get();
             nb::gil_scoped_release unlocked;
             loader.Reset();
           })
      .def("position",
           [](Loader& self) {
             const data::LoaderPosition p = self.get().position();
             return nb::make_tuple(p.pass, p.record, p.ended);
           })
      .def("seek",
           [](Loader& self, uint64_t pass, uint64_t record, bool ended) {
             self.get().Seek({pass, record, ended});
           })
      .def("skipped", [](Loader& self) { return self.get().skipped(); })
      .def("label_width", [](Loader& self) { return self.get().label_width(); })
      .def("close", &Loader::Close)
      .def("__len__", [](Loader& self) { return self.get().size(); });
}

}  // namespace plait::python
