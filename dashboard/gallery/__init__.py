"""Pages as files: a folder of HTML that opens without a server and without a network."""
