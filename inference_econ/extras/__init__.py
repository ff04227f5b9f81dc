"""Features beyond the core, one package per subject; no module outside imports them.

Tables in ``inference_econ.requests``, ``report`` and ``inputs`` list the commands, pages and scenario kinds of each
package. A package is loaded when one of them is used.
"""
