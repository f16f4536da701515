def accuracy(predictions, targets):
    return f"{(predictions == targets).float().mean().item():.2f}"
