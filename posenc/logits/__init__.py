"""Attention logits and biases: what a layer's rule predicts, and what others were made by."""

from posenc.logits.bias import BiasMatch, match_bias
from posenc.logits.match import LogitMatch, match_logits
from posenc.logits.rule import (
    LogitRule,
    predict_bias,
    predict_logits,
    rule_of_scheme,
    visible,
)
from posenc.schemes.query_growth import Growth

__all__ = [
    "BiasMatch",
    "Growth",
    "LogitMatch",
    "LogitRule",
    "match_bias",
    "match_logits",
    "predict_bias",
    "predict_logits",
    "rule_of_scheme",
    "visible",
]
