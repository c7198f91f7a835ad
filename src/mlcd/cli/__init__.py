"""The command line: it parses and shows; all else is the client's."""
