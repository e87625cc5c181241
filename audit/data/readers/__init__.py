"""Readers of data files, one format a file."""

PLUGINS = {
    "breast_cancer": "_embedded:BreastCancer",
    "digits": "_embedded:Digits",
    "fashion_mnist": "_idx:FashionMnist",
    "mnist": "_idx:Mnist",
    "sentences": "_corpora:Sentences",
    "speeches": "_corpora:Speeches",
}
