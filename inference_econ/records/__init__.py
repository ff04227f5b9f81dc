"""Plain data of results, and how it is written to files and as text.

The package has parts of records that several results share: ``facts`` of a setup, ``sources``, and ``deviations`` of
measured values. ``plain`` converts data for JSON, CSV and data frames. ``files`` writes files atomically, ``saved``
saves and loads results, and ``texts`` formats numbers, layouts and number formats. No module depends on a single
command.
"""
