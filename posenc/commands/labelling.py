"""`python -m posenc label`: give a run a name, hide it from lists, or show it again.

Whoever can write the store at a shell may do so for any owner; pages let visitors change their own alone.
"""

import click

from posenc.commands.store import STORE
from posenc.lab.labels import Label, Labels, check_name
from posenc.lab.runs import Store


@click.command(name="label", help="Name a run, hide it from lists or show it again; it stays.")
@click.argument("run")
@click.option("--name", help="What it is called; an empty one takes its name away.")
@click.option("--owner", default="", help="Whose name for it; default: of nobody known.")
@click.option("--hide/--show", "hidden", default=None, help="Leave it out of lists, or no more.")
@STORE
def label_run(
    run: str, name: str | None, owner: str, hidden: bool | None, store: str | None
) -> None:
    if name is None and hidden is None:
        raise click.ClickException("Say what to change: --name, --hide or --show.")
    if name:
        name = check_name(name)
    place = Store(store)
    Label(run, owner)  # refused before the store is asked
    if not place.has(run):
        raise click.ClickException(f"There is no run {run} in {place.url}.")
    labels = Labels(place.url)
    labels.add(Label(run, owner))
    label = labels.change(run, owner, name=name, hidden=hidden)
    whose = f" for {label.owner}" if label.owner else ""
    told = label.name or "no name"
    click.echo(f"{run}  {told}{whose}{', hidden' if label.hidden else ''}")
    showing = [one.owner for one in labels.all().get(run, ()) if not one.hidden]
    if label.hidden and showing:
        others = ", ".join(owner or "nobody known" for owner in showing)
        click.echo(f"It stays in lists: {others} shows it (--owner says for whom it is hidden).")
