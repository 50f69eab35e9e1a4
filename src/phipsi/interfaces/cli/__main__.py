"""`python -m phipsi.interfaces.cli` is the command `phipsi`."""

from phipsi.interfaces.cli.commands import main

main()
