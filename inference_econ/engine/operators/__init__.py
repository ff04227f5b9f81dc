"""Operator table: the work of one step by operator, as arrays over deployments."""
