"""Published models, a JSON file each: what a config.json says, and what its layers really do.

Of a file: model, source, config; read_as: the type whose class really reads it, and why, where that is
another; stated: what the layers do, from a source, where no class can run; differs, left_out: fields of
what was observed that are replaced or dropped, and why. truth.json is what establish.py observed.
"""
