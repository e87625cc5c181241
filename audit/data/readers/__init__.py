"""Readers of data files, one format a file."""

from audit.plugins import share_files

PLUGINS = share_files(
    _corpora="sentences speeches",
    _embedded="breast_cancer digits",
    _idx="fashion_mnist mnist",
)
