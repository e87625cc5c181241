"""Operators that a classifier's forward pass may call, in a program that a third party wrote.

An allow-list: arithmetic on tensors, numbers, lists and shapes. Whatever is not named here is refused, also operators that
later versions of torch bring. Left out with intent: files (`save`, `load`, `from_file`), other machines (`to_here`, `wait`),
storages that are replaced or resized under a tensor (`set_`, `resize_`), random state, sparse and quantised kernels,
operators of training (`*_backward`).
"""

from __future__ import annotations

TENSOR = frozenset(
    """
    Bool Complex ComplexImplicit Float FloatImplicit Int IntImplicit ScalarImplicit Size __and__ __contains__
    __derive_index __getitem__ __interpolate __is__ __isnot__ __lshift__ __not__ __or__ __range_length
    __round_to_zero_floordiv __rshift__ __upsample __upsample_bilinear __upsample_nearest __xor__ _adaptive_avg_pool2d
    _adaptive_avg_pool3d _add_relu _addmm_activation _aminmax _assert_async _assert_scalar _assert_tensor_metadata
    _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _cdist_forward _conj
    _conj_physical _conv_depthwise2d _convolution _convolution_mode _dim_arange _embedding_bag
    _embedding_bag_forward_only _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _functional_assert_async _fused_dropout
    _fused_rms_norm _grid_sampler_2d_cpu_fallback _is_all_true _is_any_true _linalg_det _linalg_eigh _linalg_slogdet
    _linalg_solve_ex _linalg_svd _list_to_tensor _local_scalar_dense _log_softmax _masked_softmax
    _native_batch_norm_legit _native_batch_norm_legit_no_training _native_multi_head_attention _ncf_unsqueeze _ncf_view
    _neg_view _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _no_grad_embedding_renorm_
    _pack_padded_sequence _pad_circular _pad_enum _pad_packed_sequence _pdist_forward _prelu_kernel _reshape_alias
    _reshape_from_tensor _safe_softmax _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _set_item _shape_as_tensor _size_if_not_equal _softmax _stack
    _tensor_to_list _thnn_fused_gru_cell _thnn_fused_lstm_cell _to_copy _transform_bias_rescale_qkv
    _transformer_encoder_layer_fwd _trilinear _unique _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index
    _unsafe_view _unwrap_optional _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm _weight_norm_interface
    abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr adjoint affine_grid_generator
    alias alias_copy all allclose alpha_dropout amax amin aminmax angle any append arange arccos arccosh arcsin arcsinh
    arctan arctan2 arctanh argmax argmin argsort argwhere as_strided as_strided_copy as_strided_scatter as_tensor asin
    asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window
    batch_norm bernoulli bilinear bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor blackman_window block_diag bmm broadcast_shapes broadcast_tensors broadcast_to bucketize cartesian_prod
    cat cdist ceil celu chain_matmul chalf channel_shuffle cholesky cholesky_inverse cholesky_solve
    choose_qparams_optimized chunk clamp clamp_max clamp_min clear clip clone col2im column_stack combinations complex
    concat concatenate conj conj_physical constant_pad_nd contiguous conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d convolution copy copysign corrcoef cos cosh cosine_similarity count_nonzero cov
    cpu cross cross_entropy_loss cummax cummin cumprod cumsum cumulative_trapezoid deg2rad degrees det detach
    detach_copy device diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter dict diff digamma dim dist div
    divide divmod dot dropout dsplit dstack einsum element_size elu embedding embedding_bag embedding_renorm empty
    empty_like empty_permuted empty_strided eq equal erf erfc erfinv exp exp2 expand expand_as expand_copy expm1 extend
    eye fabs factorial feature_alpha_dropout feature_dropout fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft
    fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2
    fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fill fill_diagonal_ fix flatten flip fliplr flipud float_power
    floor floor_divide floordiv fmax fmin fmod format frac fractional_max_pool2d fractional_max_pool3d frexp
    frobenius_norm full full_like gamma gather gcd ge gelu geqrf ger get get_device glu gradient greater greater_equal
    grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window hardshrink
    hardsigmoid hardswish hardtanh heaviside histc histogram hsplit hstack huber_loss hypot i0 igamma igammac im2col
    imag index index_add index_copy index_fill index_put index_reduce index_select indices inner insert instance_norm
    inverse is_autocast_cpu_enabled is_autocast_enabled is_complex is_conj is_contiguous is_floating_point
    is_grad_enabled is_neg is_non_overlapping_and_dense is_nonzero is_scripting is_signed isclose isfinite isin isinf
    isnan isneginf isposinf isreal istft item items kaiser_window keys kl_div kron kthvalue l1_loss layer_norm lcm ldexp
    le leaky_relu len lerp less less_equal lgamma lift_fresh lift_fresh_copy linalg_cholesky linalg_cholesky_ex
    linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
    linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve
    linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul linalg_matrix_exp
    linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr
    linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv
    linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm linear linspace list log log10 log1p log2
    log_sigmoid log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not
    logical_or logical_xor logit logspace logsumexp lstm lstm_cell lt lu_solve lu_unpack mH mT masked_fill
    masked_scatter masked_select mathremainder matmul matrix_H matrix_exp matrix_power max max_pool1d
    max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d
    max_unpool3d maximum mean median meshgrid min minimum mish mm mode modf moveaxis movedim mse_loss msort mul
    multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy
    native_batch_norm native_channel_shuffle native_dropout native_group_norm native_layer_norm native_norm ne neg
    negative new_empty new_empty_strided new_full new_ones new_zeros nextafter nll_loss nll_loss_forward nonzero
    nonzero_numpy norm normal normal_functional not_equal nuclear_norm numel numpy_T one_hot ones ones_like orgqr ormqr
    outer pad pad_sequence pairwise_distance pdist percentFormat permute permute_copy pinverse pixel_shuffle
    pixel_unshuffle polar polygamma pop popitem positive pow prelu prod promote_types put q_per_channel_axis
    q_per_channel_scales q_per_channel_zero_points qr quantile rad2deg radians rand rand_like randint randint_like randn
    randn_like random randperm range ravel real reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu relu6
    remainder renorm repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape reshape_as
    resolve_conj resolve_neg result_type reverse rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round
    row_stack rrelu rrelu_with_noise rrelu_with_noise_functional rsqrt rsub scalar_tensor scaled_dot_product_attention
    scatter scatter_add scatter_reduce searchsorted select select_copy select_scatter selu setdefault sgn sigmoid sign
    signbit silu sin sinc sinh size slice slice_copy slice_inverse slice_scatter slogdet slow_conv3d smooth_l1_loss
    softmax softplus softshrink sort sorted special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
    special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
    special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv
    special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln
    special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 special_i1e
    special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p special_log_ndtr special_log_softmax
    special_logit special_logsumexp special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma special_psi
    special_round special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_sinc special_softmax special_spherical_bessel_j0 special_xlog1py
    special_xlogy special_zeta split split_copy split_with_sizes split_with_sizes_copy sqrt square squeeze squeeze_copy
    stack std std_mean stft storage_offset str stride sub subtract sum sum_to_size svd swapaxes swapdims sym_numel
    sym_size sym_stride t t_copy take take_along_dim tan tanh tensor tensor_split tensordot threshold tile to
    to_padded_tensor topk trace transpose transpose_copy trapezoid trapz triangular_solve tril tril_indices triu
    triu_indices true_divide trunc type_as unbind unbind_copy unflatten unfold unfold_copy uniform unique_consecutive
    unique_dim unique_dim_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy update
    upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d values vander var var_mean vdot view view_as view_as_complex view_as_complex_copy view_as_real
    view_as_real_copy view_copy vsplit vstack warn where xlogy zero zeros zeros_like
    """.split()  # noqa: SIM905
)


PRIMS = frozenset(
    """
    abs acos acosh add amax amin as_strided asin asinh atan atan2 atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e
    bessel_j0 bessel_j1 bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_in_dim cat cbrt ceil clone collapse
    collapse_view conj conj_physical convert_element_type cos cosh digamma div empty empty_permuted empty_strided eq erf
    erf_inv erfc erfcx exp exp2 expm1 fft_c2c fft_c2r fft_r2c fill floor fmax fmin fmod frexp full full_like gcd ge gt
    hypot igamma igammac imag iota isfinite item le lgamma log log10 log1p log2 lt maximum maximum_value minimum
    minimum_value mul ndtri ne neg nextafter normal pow prod real reciprocal remainder reshape rev round rsqrt
    scalar_tensor shift_left shift_right_arithmetic sign signbit sin sinh spherical_bessel_j0 split_dim sqrt squeeze sub
    sum svd tan tanh transpose trunc uniform var view_of view_of_dtype where xor_sum zeta
    """.split()  # noqa: SIM905
)
GRAPH = frozenset(
    """
    ConstantChunk Constant CreateObject DictConstruct GetAttr If ListConstruct ListUnpack Loop ModuleContainerIndex
    NumToTensor Print RaiseException SetAttr TupleConstruct TupleIndex TupleSlice TupleUnpack Uninitialized abs data device
    dtype index is_cpu is_cuda is_meta is_mkldnn is_mps is_nested is_quantized is_sparse is_xpu isinstance itemsize layout max
    min name nbytes rangelist requires_grad shape tolist type unchecked_cast unchecked_unwrap_optional
    """.split()  # noqa: SIM905
)
"""Instructions of TorchScript itself (`prim::`). Prints reach nobody: see `audit.subjects._worker`."""


def harmless(space: str, name: str) -> bool:
    """True if `space::name` is on the list; `name_` is the form of `name` that works in place.

    >>> harmless("aten", "relu_"), harmless("aten", "save"), harmless("my_library", "relu")
    (True, False, False)
    """
    operators = {"aten": TENSOR, "prims": PRIMS, "prim": GRAPH}.get(space, frozenset())
    return name in operators or (space == "aten" and name.removesuffix("_") in operators)
