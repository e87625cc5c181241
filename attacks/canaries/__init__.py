"""What goes into the training data. A file adds a kind; kin share a file."""

from audit.plugins import share_files

PLUGINS = share_files(
    _clients="free_riders label_flippers model_replacement",
    _formatted="formatted_secret redrawn_secret",
    _gradients="adversarial_direction dirac_gradient non_finite random_gradient signed_cosine",
    _planted_records="backdoor poisoned_membership worst_case_initialisation",
    _planted_texts="new_token random_tokens rare_bigrams searched_token unlikely_suffix",
    _pool_records="duplicated held_out mislabelled out_of_distribution",
    _tensors="every_tensor single_coordinate single_tensor",
) | {"clipbkd": "_pool_records:ClipBkd"}
