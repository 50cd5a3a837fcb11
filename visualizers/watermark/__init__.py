"""The watermark in a text: its picture in the page and its table."""
