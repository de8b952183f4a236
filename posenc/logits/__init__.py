"""Attention logits and biases: what a layer's rule predicts, and what others were made by."""

from posenc.logits.rule import (
    Growth,
    LogitRule,
    predict_bias,
    predict_logits,
    rule_of_scheme,
    visible,
)

__all__ = ["Growth", "LogitRule", "predict_bias", "predict_logits", "rule_of_scheme", "visible"]
