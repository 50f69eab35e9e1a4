"""The command line."""

from phipsi.interfaces.cli.commands import main as main
