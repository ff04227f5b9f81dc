"""Curves of kernels fitted to public tables: ``sh run.sh refit kernels``."""
