"""Sweeps: frontiers of every combination of models, GPUs and settings, computed in processes and stored as Parquet."""
