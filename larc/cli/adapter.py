"""``larc adapter``: train a frozen semantic adapter."""

from __future__ import annotations

import argparse

from larc.cli.common import Commands, command, given
from larc.settings import add_options, build


def add(commands: Commands) -> None:
    """Declare the command."""
    from larc.studies.programs.settings import AdapterSettings

    adapter = command(commands, "adapter", "Train a frozen semantic adapter.", _adapter)
    add_options(adapter, AdapterSettings)


def _adapter(arguments: argparse.Namespace) -> None:
    from larc.progress import tracked
    from larc.studies.programs.adapter import train_adapter
    from larc.studies.programs.settings import AdapterSettings

    settings = build(AdapterSettings, given(arguments, AdapterSettings))
    with tracked("adapter", settings.updates) as on_update:
        out = train_adapter(settings, on_update)
    print(f"the adapter is in {out}; use it with load_substrate(..., adapter={str(out)!r})")
