"""What attacks may read of models, by name. A file adds one; kin share a file."""

from audit.plugins import share_files

PLUGINS = share_files(
    _queries="augmented_logits boundary_distances noisy_labels predicted_labels query_confidences",
    _reductions="predicted_classes repeated_outputs",
    _rounds="count_products digit_products model_products round_lengths round_loss_drops "
    "sum_products update_loss_drops update_products",
    _text_signals="beam_continuations compressed_sizes continuations extrapolated_exposures initial_losses "
    "secret_ranks token_log_probabilities token_moments",
    _white_box="class_distances gradient_norms last_gradient_norms loss_trajectory step_products weight_products",
    logits="confidences losses output_figures",
) | {"hidden": "_white_box:HiddenRepresentations"}
