"""Operator table: arithmetic, memory traffic and communication of a step by operator, as arrays over plans."""
