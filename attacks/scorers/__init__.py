"""How membership is read off: functions of arrays, higher means more likely a member. A file adds one; kin share a file."""

from audit.plugins import share_files

PLUGINS = share_files(
    _figures="confidence entropy loss modified_entropy offset output_gradient",
    _gradients="gradient_norm gradient_product weight_difference",
    _labels="boundary label_only noise_robustness",
    _learned="learned_combination near_records shadow_classifier shadow_models trajectory white_box_classifier",
    _population="attack_p attack_r quantile_regression reference_quantile",
    _rounds="model_product round_exactness round_extreme round_loss_drop round_spread round_total sum_product "
    "update_loss_drop update_product",
    _secrets="discoverable_extraction exposure extraction",
    _texts="min_k min_k_plus_plus reference_difference zlib_ratio",
)
