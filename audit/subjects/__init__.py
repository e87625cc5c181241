"""Ways to read a model that is already trained, one a file."""

PLUGINS = {
    "lightgbm": "_trees:LightGbm",
    "skops": "_trees:Skops",
    "torch_export": "_exported:TorchExport",
    "torchscript": "_exported:TorchScript",
    "xgboost": "_trees:XgBoost",
}
