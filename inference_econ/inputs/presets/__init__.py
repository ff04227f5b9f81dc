"""Assumptions of the cost model: presets, fitted kernel curves, and corrections from measured servers."""
