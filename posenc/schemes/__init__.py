"""The registry: one line per scheme, in the order in which they are shown and coloured."""

from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.none import NoneConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.scheme import SchemeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig

SCHEMES: dict[str, type[SchemeConfig]] = {
    "learned": LearnedConfig,
    "sinusoidal": SinusoidalConfig,
    "rope": RopeConfig,
    "alibi": AlibiConfig,
    "none": NoneConfig,
}
