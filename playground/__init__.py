"""The browser playground: one generic tab per strategy over engine.decode()."""
