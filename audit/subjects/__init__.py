"""Ways to read a model that is already trained, one a file."""

PLUGINS = {
    "lightgbm": "_trees:LightGbm",
    "skops": "_trees:Skops",
    "xgboost": "_trees:XgBoost",
}
