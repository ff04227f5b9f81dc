"""Features beyond the core, one package per subject; no module outside imports them.

Tables list their commands, options, pages and scenario kinds, which are loaded lazily like plug-ins.
"""
