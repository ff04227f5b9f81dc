"""Kernel curves fitted to public tables: ``sh run.sh refit kernels``."""
