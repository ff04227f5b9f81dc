"""From an answer to what one types: instances of an engine, and the run that holds them to account."""
