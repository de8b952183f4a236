"""The setting that pages and commands share: its field rules, presets and the model it takes sizes from."""

from posenc.settings.setting import PRECISIONS, Query, Setting, known

__all__ = ["PRECISIONS", "Query", "Setting", "known"]
