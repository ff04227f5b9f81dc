"""Plain data of answers, and how they are kept and written.

What belongs here: what records of several answers have (``facts`` of a setup, ``sources``, ``deviations`` of measured
values), data as JSON, CSV and frames have them (``plain``), files that are written whole or not at all (``files``) or
hold an answer (``saved``), and numbers, layouts and formats as people write them (``texts``). Nothing of a question.
"""
