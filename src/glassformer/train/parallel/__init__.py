"""Weights of several processes: replicated by DDP, or sharded by FSDP2."""
