"""Which operators compute in which precision; everything else takes what it gets.

A row names operators; all their aliases belong to it. What is not named in any row
computes in the dtype of its inputs: reshaping, pooling, relu, BatchNorm, and so on.
"""

from .... import _plait

# Most of the time goes here, and sums are in float32 inside.
LOW = "Convolution Deconvolution FullyConnected RNN"

# Large or very different results, or sums whose result is to be exact.
FULL = """
arccos arcsin arctanh cosh sinh tan erfinv exp expm1 log log10 log2 log1p
_power broadcast_power square reciprocal _rdiv_scalar rsqrt rcbrt _power_scalar
_rpower_scalar _hypot _hypot_scalar broadcast_hypot _square_sum
sum nansum prod nanprod mean norm softmin
khatri_rao moments gamma gammaln
_linalg_gelqf _linalg_gemm _linalg_gemm2 _linalg_potrf _linalg_potri _linalg_sumlogdiag
_linalg_syevd _linalg_syrk _linalg_trmm _linalg_trsm _linalg_makediag
_linalg_extractdiag _linalg_maketrian _linalg_extracttrian _linalg_inverse _linalg_det
_linalg_slogdet argsort topk
SoftmaxOutput log_softmax SoftmaxActivation LinearRegressionOutput
LogisticRegressionOutput MAERegressionOutput SVMOutput softmax_cross_entropy smooth_l1
MakeLoss make_loss Custom ctc_loss IdentityAttachKLSparseReg
_contrib_hawkesll _contrib_count_sketch _contrib_fft _contrib_SyncBatchNorm
_contrib_DeformableConvolution _contrib_ModulatedDeformableConvolution
_contrib_DeformablePSROIPooling _contrib_MultiBoxDetection _contrib_MultiBoxPrior
_contrib_MultiBoxTarget _foreach _while_loop _cond
"""

# Statistics of float16 may leave its range before they are divided; those of bfloat16
# cannot, and all of these sum in float32.
FULL_FLOAT16 = "softmax LayerNorm GroupNorm InstanceNorm L2Normalization LRN"

# All inputs in one dtype, the widest of them.
WIDEST = """
elemwise_add elemwise_sub elemwise_mul elemwise_div add_n _mod _maximum _minimum
_equal _not_equal _greater _greater_equal _lesser _lesser_equal _logical_and
_logical_or _logical_xor _scatter_elemwise_div
broadcast_add broadcast_sub broadcast_mul broadcast_div broadcast_mod broadcast_maximum
broadcast_minimum broadcast_equal broadcast_not_equal broadcast_greater
broadcast_greater_equal broadcast_lesser broadcast_lesser_equal broadcast_logical_and
broadcast_logical_or broadcast_logical_xor
Concat Correlation batch_dot dot stack where
_contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal _contrib_ROIAlign
_contrib_box_iou _contrib_box_nms
_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt
_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt
_random_pdf_gamma _random_pdf_exponential _random_pdf_uniform
_random_pdf_negative_binomial _random_pdf_generalized_negative_binomial
_random_pdf_dirichlet _random_pdf_normal _random_pdf_poisson
"""

# (operator, parameter, values that need float32)
CONDITIONAL = [
    ("Activation", "act_type", ["softrelu"]),
    ("LeakyReLU", "act_type", ["elu", "selu"]),
]

LOSS_OUTPUTS = [
    "SoftmaxOutput",
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "MAERegressionOutput",
]


class Lists:
    """The lists for one half type: low, full, widest, any; conditional is CONDITIONAL.
    Each name of an operator is in one of them."""

    def __init__(self, full):
        known = set(_plait.op_names())
        self.low = _with_aliases(LOW, known)
        self.full = _with_aliases(full, known)
        self.widest = _with_aliases(WIDEST, known)
        taken = {*self.low, *self.full, *self.widest}
        taken.update(row[0] for row in CONDITIONAL)
        self.any = sorted(known - taken)


def _with_aliases(names, known):
    found = []
    for name in names.split():
        if name not in known:
            continue
        info = _plait.op_info(name)
        for each in (info["name"], *info["aliases"]):
            if each not in found:
                found.append(each)
    return found


FLOAT16 = Lists(FULL + FULL_FLOAT16)
BFLOAT16 = Lists(FULL)
