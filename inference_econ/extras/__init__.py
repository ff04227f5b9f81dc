"""Features beside the core, one package per subject; nothing outside imports them.

Tables name their commands, options, pages and scenario kinds, which are loaded lazily, as plug-ins are.
"""
