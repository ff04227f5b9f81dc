"""Features beyond the core, one package per subject; modules outside ``extras`` do not import these packages.

Tables in ``inference_econ.requests``, ``report`` and ``inputs`` list the commands, pages and scenario kinds of each
package. A package is loaded when one of its commands, options, pages or scenario kinds is used.
"""
