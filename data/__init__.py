"""Programs that create the data of the package, and the published tables that they read; not part of the wheel."""
