"""`posenc plan`: what a longer context takes for a model."""

import json

import click

from posenc.analysis.base_search import MAX_LENGTH
from posenc.cli.memory import print_budget
from posenc.cli.models import (
    AS_JSON,
    ASSUME,
    CONFIG,
    UsageError,
    print_assumptions,
    print_list,
    print_table,
    read_model,
)
from posenc.device import fixed_threads
from posenc.errors import PosencError
from posenc.models.model_config import full_cache_note
from posenc.models.presets import MODELS
from posenc.planner import (
    METHODS,
    RANKING,
    RANKING_RULES,
    ContextPlan,
    advice_of,
    assumed_sentences,
    at_inference,
    budget_record,
    layer_notes,
    left_out_sentences,
    length_rows,
    loss_by_position_script,
    memory_budget,
    order_sentences,
    paste,
    plan,
    recommendation,
    warnings_of,
)
from posenc.planner.methods import CONFIGURED, DEFAULT_METHODS, NAMES, UNSCALED
from posenc.planner.recommendation import bound_sentence, precision_sentence, suggested
from posenc.planner.record import plan_record
from posenc.planner.tables import EXPLAINED, ranked
from posenc.schemes.rope import RopeConfig
from posenc.text import joined, significant, with_advanced


@click.command(
    name="plan",
    help="Plan a longer context for a model: the path of its config.json, - for stdin, or the name of a "
    "model that posenc knows, such as llama-3.1-8b, as published, without optional scaling.",
)
@CONFIG
@click.option("--context", type=int, help="Tokens to read.")
@click.option(
    "--trained", type=int, help="Training length in tokens, where the config does not give it."
)
@click.option(
    "--methods",
    help=with_advanced(
        f"Some of {','.join(METHODS)}, with commas between them; default {','.join(DEFAULT_METHODS)}.",
        (name for name, method in METHODS.items() if method.advanced),
    ),
)
@click.option(
    "--search",
    is_flag=True,
    help="Search the base at which B(k), the bound of Men et al. 2024, stays at or above 0. This takes up "
    "to a minute. The method base searches it, too.",
)
@click.option(
    "--script",
    type=click.Choice(NAMES),
    help=f"Print the script that measures a method; {CONFIGURED}: the checkpoint as it is.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory of the weights and the KV cache, such as 24GiB: how many tokens fit? With or without "
    "--context.",
)
@click.option("--weights", metavar="SIZE", help="Memory that the weights take, such as 16GiB.")
@click.option("--batch", type=int, help="Sequences at a time, by default 1.")
@ASSUME
@AS_JSON
def plan_context(
    config: str, context: int | None, trained: int | None, methods: str | None, search: bool,
    script: str | None, memory: str | None, weights: str | None, batch: int | None,
    assume: str | None, as_json: bool,
) -> None:  # fmt: skip
    if context is None and memory is None:
        raise UsageError("plan needs --context, the tokens to read, or --memory, such as 24GiB.")
    if context is None and (trained is not None or methods is not None or search or script):
        raise UsageError("--trained, --methods, --search and --script go with --context.")
    if script and (as_json or methods is not None or memory is not None):
        raise UsageError("--script goes with none of --json, --methods and --memory.")
    if memory is None and (weights is not None or batch is not None):
        raise UsageError("--weights and --batch go with --memory.")
    model, name = read_model(config, assume)
    if trained is None and config in MODELS:
        trained = MODELS[config].trained_length
    budget = None
    if memory is not None:
        budget = memory_budget(
            model,
            memory,
            weights=0 if weights is None else weights,
            batch=1 if batch is None else batch,
            context=context,
        )
    of_memory = {} if budget is None else {"memory": budget_record(budget)}
    if context is None:
        if as_json:
            answer = {"assumption": model.assumption, "name": name} | of_memory
            click.echo(json.dumps(answer, indent=2))
        else:
            print_assumptions(model, model.assumed)
            print_budget(budget)
        return
    names = None if methods is None else [word.strip() for word in methods.split(",")]
    search = search or "base" in (script, *(names or ()))
    if search:
        click.echo(
            "Searching the base at which B(k) stays at or above 0: up to a minute.", err=True
        )
    try:
        with fixed_threads(1):  # more threads wait longer than they compute
            context_plan = plan(
                model, context, name=name, trained_length=trained,
                methods=[name for name in (script,) if name in METHODS] if script else names,
                search_base=search,
            )  # fmt: skip
    except PosencError as error:
        raise UsageError(str(error)) from None
    if script:
        click.echo(_script(context_plan, script))
    elif as_json:
        click.echo(json.dumps(plan_record(context_plan) | of_memory, indent=2))
    else:
        _print_plan(context_plan)
        if budget is not None:
            click.echo()
        print_budget(budget)


def _script(plan: ContextPlan, name: str) -> str:
    if name == CONFIGURED:
        return loss_by_position_script(plan)
    for method in plan.methods:
        if method.method.name == name and (script := loss_by_position_script(plan, method)):
            return script
    why = next(
        iter(left_out_sentences(plan)), f"{METHODS[name].label}: nothing to paste, or no scaling."
    )
    raise UsageError(f"There is no script for {why}")


def _print_plan(plan: ContextPlan) -> None:
    print_assumptions(plan.model, (*assumed_sentences(plan), *plan.model.assumed))
    for line in filter(None, (recommendation(plan), _next_step(plan))):
        click.echo(line)
    print_list(
        "Lengths of this model, in tokens",
        [
            f"{row['length']}: {row['tokens']} ({row['source']})"
            if row["tokens"]
            else f"{row['length']}:"
            for row in length_rows(plan)
        ],
    )
    print_list(
        "Advice by amount of training",
        [
            f"{advice.title}: {joined((advice.method, *advice.equal), 'or')}. Logit change on short "
            f"context: {advice.short}. {advice.sentence}{advice.source and f' ({advice.source})'}"
            if advice.method
            else f"{advice.title}: {advice.sentence}"
            for advice in advice_of(plan)
        ],
    )
    print_list(
        "Other methods at inference",
        [
            f"{x.label}: {x.statement} Available in {x.support}. ({x.source})"
            for x in at_inference(plan)
        ],
    )
    if plan.methods:
        _print_ranking(plan)
    print_list("Left out", left_out_sentences(plan))
    sizes = ", ".join(f"{significant(gib, 4)} GiB in {name}" for name, gib in plan.cache.items())
    click.echo(f"\nKV cache of one sequence of {plan.target:,} tokens: {sizes}.")
    notes = full_cache_note(plan.model, plan.target), precision_sentence(plan), bound_sentence(plan)
    for sentence in filter(None, notes):
        click.echo(sentence)
    if type(plan.trained) is RopeConfig and not plan.base_searched and plan.reach <= MAX_LENGTH:
        click.echo("Add --search to search the base, which takes up to a minute.")
    layers = layer_notes(plan.model, plan.target, plan.trained_length)
    print_list("Layers", [f"{note.layers}: {note.sentence} ({note.source})" for note in layers])
    print_list(
        "Sources",
        [
            f"{method.method.label}: {statement} ({source})"
            for method in plan.methods
            for statement, source in method.statements
        ],
    )
    print_list(
        "Warnings",
        [f"{x.sentence} ({x.rule} Source: {x.source})" for x in warnings_of(plan)],
    )
    if plan.longer:
        _print_blocks(plan)


def _print_ranking(plan: ContextPlan) -> None:
    """Print the tables of the methods, and what puts them in order."""
    click.echo()
    for title, rows in ranked(plan).items():
        click.echo(title)
        print_table(rows)
        click.echo()
    click.echo(f"{RANKING}\n{EXPLAINED}")
    print_list("What puts them in order", order_sentences(plan))
    print_list("How this is ranked", RANKING_RULES)


def _next_step(plan: ContextPlan) -> str:
    """Name the option that prints a script for the suggested method, or for the next that has one."""
    if plan.trained_length is None or plan.target <= plan.trained_length:
        return ""
    first = suggested(plan)
    for method in (*([first] if first else []), *plan.methods):
        name = method.method.name
        if loss_by_position_script(plan, method):
            return (
                "Next: measure it on your own checkpoint and texts. Add --script "
                f"{name} to print the script."
            )
    return ""


def _print_blocks(plan: ContextPlan) -> None:
    """Print what to paste for every method."""
    blocks = [(method.method, paste(plan, method)) for method in plan.methods]
    if where := next((block.where for _, block in blocks if block.where), ""):
        print_list("What to paste", [f"Keys of config.json: {where}"])
    for method, block in blocks:
        if method.name == UNSCALED.name:
            continue
        click.echo(f"\n{method.label}")
        for version, keys in ((5, block.rope_parameters), (4, block.rope_scaling)):
            if keys:
                click.echo(f"  config.json, transformers {version}:  {json.dumps(keys)}")
        for line in filter(None, (block.vllm, block.sglang, block.llama_cpp, *block.why)):
            click.echo(f"  {line}")
