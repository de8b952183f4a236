"""The registry: a line per scheme, in the order of tables and colours."""

from posenc.errors import ConfigError, quoted
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.base import NoneConfig, SchemeConfig
from posenc.schemes.cope import CopeConfig
from posenc.schemes.fire import FireConfig
from posenc.schemes.fox import FoxConfig
from posenc.schemes.kerple import KerpleLogConfig, KerplePowerConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.pope import PopeConfig
from posenc.schemes.rnope import RnopeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import ROPE_SCALINGS
from posenc.schemes.sandwich import SandwichConfig
from posenc.schemes.shaw import ShawConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.ssmax import SsmaxConfig, SsmaxRopeConfig
from posenc.schemes.stick_breaking import StickBreakingConfig
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig
from posenc.schemes.xpos import XposConfig


class _Registry(dict[str, type[SchemeConfig]]):
    """A dict that names what it holds when asked for something else."""

    def __missing__(self, kind: object) -> type[SchemeConfig]:
        raise ConfigError(f"a scheme's kind must be one of {', '.join(self)}, got {quoted(kind)}.")


SCHEMES: dict[str, type[SchemeConfig]] = _Registry(
    learned=LearnedConfig,
    sinusoidal=SinusoidalConfig,
    rope=RopeConfig,
    alibi=AlibiConfig,
    none=NoneConfig,
    **ROPE_SCALINGS,
    shaw=ShawConfig,
    transformer_xl=TransformerXLConfig,
    t5=T5Config,
    kerple_log=KerpleLogConfig,
    kerple_power=KerplePowerConfig,
    fire=FireConfig,
    sandwich=SandwichConfig,
    xpos=XposConfig,
    cope=CopeConfig,
    ssmax=SsmaxConfig,
    ssmax_rope=SsmaxRopeConfig,
    rnope=RnopeConfig,
    pope=PopeConfig,
    fox=FoxConfig,
    stick_breaking=StickBreakingConfig,
)
