"""What this build contains: mx.runtime.Features() and feature_list()."""

import collections

__all__ = ["Feature", "feature_list", "Features"]

# MXNet's names, so that scripts which ask for them get an answer.
_NAMES = (
    "CUDA",
    "CUDNN",
    "NCCL",
    "CUDA_RTC",
    "TENSORRT",
    "CPU_SSE",
    "CPU_SSE2",
    "CPU_SSE3",
    "CPU_SSE4_1",
    "CPU_SSE4_2",
    "CPU_SSE4A",
    "CPU_AVX",
    "CPU_AVX2",
    "OPENMP",
    "SSE",
    "F16C",
    "JEMALLOC",
    "BLAS_OPEN",
    "BLAS_ATLAS",
    "BLAS_MKL",
    "BLAS_APPLE",
    "LAPACK",
    "MKLDNN",
    "OPENCV",
    "CAFFE",
    "PROFILER",
    "DIST_KVSTORE",
    "CXX14",
    "INT64_TENSOR_SIZE",
    "SIGNAL_HANDLER",
    "DEBUG",
    "TVM_OP",
)
_ALWAYS = {"PROFILER", "CXX14", "INT64_TENSOR_SIZE"}


class Feature:
    """A compile-time or run-time capability: its name, and whether it is there."""

    __slots__ = ("name", "enabled")

    def __init__(self, name, enabled):
        self.name, self.enabled = name, enabled

    def __repr__(self):
        return "%s %s" % ("✔" if self.enabled else "✖", self.name)


def feature_list():
    """All features, in a fixed order; the core adds its own names at the end."""
    from . import _plait

    query = getattr(_plait, "features", None)
    found = dict(query()) if query else {}
    state = {name: name in _ALWAYS for name in _NAMES}
    state.update(found)
    return [Feature(name, bool(enabled)) for name, enabled in state.items()]


class Features(collections.OrderedDict):
    """The features by name; one instance in a process."""

    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            collections.OrderedDict.__init__(
                cls.instance, [(f.name, f) for f in feature_list()]
            )
        return cls.instance

    def __init__(self):  # filled once, in __new__
        pass

    def __repr__(self):
        return str(list(self.values()))

    def is_enabled(self, feature_name):
        """Whether the feature is there; RuntimeError for an unknown name."""
        feature = self.get(feature_name.upper())
        if feature is None:
            raise RuntimeError(
                "Feature '%s' is unknown, known features are: %s"
                % (feature_name, list(self))
            )
        return feature.enabled
