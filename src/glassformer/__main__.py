"""`python -m glassformer` is `glassformer`: torchrun starts modules."""

from glassformer.cli.main import main

main()
