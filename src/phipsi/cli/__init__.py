"""The command line."""

from phipsi.cli.commands import main as main
