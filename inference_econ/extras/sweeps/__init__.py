"""Sweeps: every combination of models, GPUs and settings, answered in processes and kept as Parquet."""
