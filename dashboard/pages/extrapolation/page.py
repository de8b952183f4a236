"""Extrapolation: trained models past their training length, and what their formulas say of it."""

from dashboard.blocks import Page, Uses
from dashboard.pages.extrapolation import by_protocol, formula, measured
from dashboard.pages.extrapolation.options import PROTOCOL, Options
from dashboard.settings import Setting


def uses(options: Options) -> Uses:
    """Return what the view reads of a setting: trained models have numbers of their own."""
    if options.half == "measured":
        return Uses(("schemes",), schemes=False)
    if options.half == PROTOCOL:
        return Uses(schemes=False)
    return Uses(("schemes", "train_length", "device"), never=("length", "precision"))


USES = uses


def page(setting: Setting, options: Options) -> Page:
    """Return the page; only its formulas depend on the setting and the options alone."""
    views = {"measured": measured.page, PROTOCOL: by_protocol.page, "formula": formula.page}
    return views[options.half](setting, options)
