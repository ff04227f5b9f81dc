"""Features beyond the core, one package per subject; no module outside imports them.

Tables list the commands, options, pages and scenario kinds of each package. The packages are loaded when needed, like
plug-ins.
"""
