"""Plain data of results, and how it is written to files and as text.

The package has the record parts that results share (``facts`` of a setup, ``sources``, ``deviations`` of measured
values) and data for JSON, CSV and frames (``plain``). It writes files atomically (``files``), saves and loads results
(``saved``), and formats numbers, layouts and number formats (``texts``). It knows no single command.
"""
