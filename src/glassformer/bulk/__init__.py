"""Bulk jobs: a call of a model for each row of large files, exactly once, whatever is killed."""

from glassformer.bulk.run import BulkSummary, map_files

__all__ = ["BulkSummary", "map_files"]
