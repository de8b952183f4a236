"""The setting from which the config of every scheme is made, as a value, as text and as a record."""

from dashboard.settings.chosen_model import PRESETS, ChosenModel, chosen_model
from dashboard.settings.link_text import record, to_text
from dashboard.settings.setting import Setting

__all__ = [
    "PRESETS",
    "ChosenModel",
    "Setting",
    "chosen_model",
    "record",
    "to_text",
]
