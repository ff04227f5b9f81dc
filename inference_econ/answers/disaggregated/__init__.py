"""Prefill and decode pools: layouts, transfer of the KV cache, load, sizing, and steady states."""
