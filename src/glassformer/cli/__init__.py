"""The command line: the only place that prints, parses flags or exits."""
