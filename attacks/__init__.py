"""What is planted in the training data (`canaries`) and how membership is read off a model (`scorers`)."""
