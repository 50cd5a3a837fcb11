"""What is measured after an assisted run (stub)."""
def aftermath(config):
    return None
