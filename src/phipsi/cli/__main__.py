"""`python -m phipsi.cli` is the command `phipsi`."""

from phipsi.cli.commands import main

main()
