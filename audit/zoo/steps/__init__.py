"""Wrong DP-SGD steps, one defect a file, each as people wrote it, and a correct one that no check may accuse."""
