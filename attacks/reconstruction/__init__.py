"""Reconstruction of records from gradients or updates that were released: by closed forms, and by matching gradients."""
