"""`python -m glassformer.cli` is `glassformer`."""

from glassformer.cli.main import main

main()
