"""Deliberate faults in what is read of real models, the planner and the Hub; see __main__.py."""

from tests.mutants.runs import Mutant

MUTANTS_OF_MODELS = (
    # Configs and their words.
    Mutant("a word unpacked however long", "models/read_config.py",
           "reader.decompress(content, MAX_TOKEN_CONTENT + 1)", "reader.decompress(content)",
           ("config_token",)),
    Mutant("a missing type guessed", "models/rope_formats.py",
           "    if first is not None:", "    if first is keys:", ("config_refusals",)),
    Mutant("OLMo 3 with its sliding layers scaled", "models/families.json",
           '{"default": 500000.0, "names": [], "scaled": false}', '{"default": 500000.0, "names": []}',
           ("published_models",)),
    Mutant("sines whose last frequency is left out", "models/learned_models.py",
           "width / (width - 2)", "width / (width - 0)", ("transformers_tables",)),
    # The models by name.
    Mutant("a key of position left unread in silence", "models/read_config.py",
           "if unread and assume is None:", "if unread and assume == known:",
           ("config_refusals",)),
    # The planner.
    Mutant("a window that hides nothing", "planner/plan.py",
           "reach = context if kind.window is None else min(context, kind.window)",
           "reach = context", ("context_plan",)),
    Mutant("a method that the runs refute told as usable", "planner/methods.py",
           "if factor <= evidence.untrained_to and confirmed:",
           "if factor <= evidence.untrained_to:", ("plan_advice",)),
    Mutant("makers' advice past their factor", "planner/evidence.py",
           'return same and least <= getattr(config, "factor", 1.0) <= self.factor', "return same",
           ("plan_advice",)),
    Mutant("an unknown wrapper read by its text model", "models/read_config.py",
           "if wrapper and assume is None:", "if False and assume is None:", ("config_refusals",)),
    Mutant("positions that rounding made one counted twice", "planner/scaling_effects.py",
           "return 1 + int((rounded[1:] != rounded[:-1]).sum())", "return len(rounded)", ("context_plan",)),
    Mutant("vLLM told a longer context twice", "planner/paste.py",
           "counted = config.kind in _VLLM_COUNTS_FACTOR", "counted = False", ("emitted_blocks",)),
    Mutant("SGLang told a longer context twice", "planner/paste.py",
           'counted = config.kind == "rope_linear"', "counted = False", ("emitted_blocks",)),
    Mutant("llama.cpp told YaRN's start as its target", "planner/paste.py",
           "--yarn-orig-ctx {config.trained_length}",
           "--yarn-orig-ctx {int(config.trained_length * config.factor)}", ("emitted_blocks",)),
    # The Hub.
    Mutant("a redirect to anywhere", "checkpoints/hub.py",
           "parts[:2] == home or (", "parts or (", ("hub",)),
    Mutant("other bytes than were asked for", "checkpoints/hub.py",
           "if (begin, end) != (start, min(start + count, size) - 1):", "if end < begin:",
           ("hub",)),
    Mutant("a Hub that nobody switched on", "checkpoints/hub.py",
           "    if not hub_is_enabled():", "    if not SWITCH:", ("hub",)),
)  # fmt: skip
