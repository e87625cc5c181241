"""Wrong DP code, one defect a file, each as people wrote it, and correct twins that no audit may refute."""
