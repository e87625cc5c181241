"""One round of any federated strategy, called with replies made by hand: Flower's strategies and mods as mechanisms."""
