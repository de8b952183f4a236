"""The readings of one config by all engines."""

from collections.abc import Callable, Mapping

from posenc.errors import ConfigFileError
from posenc.limits import check_count
from posenc.models.config_json import ConfigSource, read_object
from posenc.models.engines import llama_cpp, python_readers, servers
from posenc.models.engines.config_view import ConfigView
from posenc.models.engines.reading import SOURCES, EngineName, EngineReading
from posenc.models.model_config import MAX_CONTEXT
from posenc.models.read_config import read_record
from posenc.schemes.rope import RopeConfig

ENGINES: Mapping[EngineName, Callable[[ConfigView], EngineReading]] = {
    "transformers 5": python_readers.transformers_5,
    "transformers 4": python_readers.transformers_4,
    "vLLM": servers.vllm,
    "SGLang": servers.sglang,
    "llama.cpp": llama_cpp.llama_cpp,
    "MLX": python_readers.mlx,
}


def engine_readings(
    config: ConfigSource,
    length: int | None = None,
    *,
    started: int | None = None,
    assume: str | None = None,
) -> tuple[EngineReading, ...]:
    """Return what each engine makes of a config.json, for every kind of layer with RoPE.

    config, assume: as for `posenc.models.read_config`. length: of the text in tokens, by default the
    context of the config. started: the context that a server is started with (vLLM's --max-model-len,
    llama.cpp's -c); by default the engine's own, or the length where that is more.
    Raises ConfigFileError for a config that is not read or has no RoPE, and SchemeArgumentError for a
    length outside 1 .. 2^24.
    """
    reading = read_record(read_object(config), assume)
    model = reading.model
    kinds = [kind for kind in model.layer_kinds if isinstance(kind.scheme, RopeConfig)]
    if not kinds:
        raise ConfigFileError("the config has no RoPE, which is all that engines are compared by.")
    if length is None:
        length = min(model.context or 1, MAX_CONTEXT)
    check_count("length", length, 1, MAX_CONTEXT)
    if started is not None:
        check_count("started", started, length, MAX_CONTEXT)
    readings = []
    for kind in kinds:
        assert isinstance(kind.scheme, RopeConfig)
        view = ConfigView(model, reading.content, kind, kind.scheme, length, started)
        for name, read in ENGINES.items():
            known = name == "transformers 5" or model.read_as in SOURCES[name].models
            readings.append(
                read(view) if known else EngineReading(engine=name, kind=kind, is_read=False)
            )
    return tuple(readings)
