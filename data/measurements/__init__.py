"""Conversion of published tables of measured servers to rows whose columns are the fields of a measurement.

A published row omits facts that its collection states elsewhere: settings in the script of a run, the pools of a
recipe, or the use of speculation. This package adds these facts. ``sh run.sh refit measurements`` writes the result to
``scenarios/measured/servers``.
"""
