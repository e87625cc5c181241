"""Checks of one DP-SGD step of any implementation: seconds, no training, no attack."""
