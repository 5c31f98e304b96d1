"""What the pages show, computed from recorded runs: no HTTP in here."""
