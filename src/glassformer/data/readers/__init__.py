"""Readers of files: `tables` for formats with named columns, a module each for other formats."""
