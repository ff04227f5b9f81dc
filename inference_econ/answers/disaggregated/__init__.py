"""Separate pools for prefill and decode."""
