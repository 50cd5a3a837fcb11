"""Everything that touches Gradio's internals or the frame of the page."""
