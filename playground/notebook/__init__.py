"""A run as the widget of a notebook, drawn while it decodes."""
