"""A recipe: everything that decides a run, in one TOML file. Reading it costs no torch."""
