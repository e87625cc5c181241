"""How membership is read off: functions of arrays, higher means more likely a member. A file adds one; kin share a file."""

PLUGINS = {
    "confidence": "_figures:Confidence",
    "entropy": "_figures:Entropy",
    "min_k": "_texts:MinK",
    "min_k_plus_plus": "_texts:MinKPlusPlus",
    "model_product": "_rounds:ModelProduct",
    "modified_entropy": "_figures:ModifiedEntropy",
    "output_gradient": "_figures:OutputGradient",
    "reference_difference": "_texts:ReferenceDifference",
    "round_loss_drop": "_rounds:RoundLossDrop",
    "sum_product": "_rounds:SumProduct",
    "update_loss_drop": "_rounds:UpdateLossDrop",
    "update_product": "_rounds:UpdateProduct",
    "zlib_ratio": "_texts:ZlibRatio",
}
