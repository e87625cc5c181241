"""Built-in architectures. A file adds one; small ones share a file."""

from audit.plugins import share_files

PLUGINS = share_files(
    _encoder="vit",
    _small="cnn logistic mlp per_record recurrent transformer wide_resnet",
)
