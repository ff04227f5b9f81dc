"""Command line: parse the options, call one library function, and print its result."""
