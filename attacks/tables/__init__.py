"""A synthetic table compared with the records that it was made from: singling out, linkability and inference."""
