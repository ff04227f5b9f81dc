"""Levels of measured servers over what a fitted profile predicts of them.

Predictions of a profile are off by what servers have in common: one model on one chip, one version of an engine, one
way of serving, one deployment. ``observed`` reads how far measured rows are off and how that follows from steps,
``pooled`` fits levels to them, ``levels_file`` writes them, and ``own`` fits those of one's own servers. Those that are
shipped are made by ``data/levels``.
"""
