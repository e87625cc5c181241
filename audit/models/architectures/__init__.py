"""Built-in architectures. A file adds one; small ones share a file."""

PLUGINS = {
    "cnn": "_small:Cnn",
    "logistic": "_small:Logistic",
    "mlp": "_small:Mlp",
    "per_record": "_small:PerRecord",
    "recurrent": "_small:Recurrent",
    "transformer": "_small:Transformer",
    "vit": "_encoder:Vit",
    "wide_resnet": "_small:WideResnet",
}
