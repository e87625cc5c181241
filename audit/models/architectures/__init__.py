"""Built-in architectures. A file adds one; small ones share a file."""

PLUGINS = {
    "cnn": "_small:Cnn",
    "logistic": "_small:Logistic",
    "mlp": "_small:Mlp",
    "transformer": "_small:Transformer",
}
