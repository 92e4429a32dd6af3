"""Negative log likelihood."""

BATCHES = [2, 4, 8, 8, 16, 16, 32, 64, 64, 17]
CLASSES = [2, 3, 4, 8, 10, 16, 64]


def scores_of(rng, base):
    batch, classes = rng.choice(BATCHES), rng.choice(CLASSES)
    if "2d" in base:
        return [batch, classes, rng.choice([2, 4, 8]), rng.choice([4, 8, 3])]
    return [classes] if rng.random() < 0.06 else [batch, classes]


def parts(rng, base):
    scores = scores_of(rng, base)
    channel = 1 if len(scores) > 1 else 0
    target = ("i64", scores[:channel] + scores[channel + 1:])
    weight = [scores[channel]] if rng.random() < 0.5 else None
    return scores, target, weight, rng.choice([0, 1, 1, 2])


def forward(rng, base, overload):
    scores, target, weight, reduction = parts(rng, base)
    return [scores, target, weight], [reduction, rng.choice([-100, 1])]


def backward(rng, base, overload):
    scores, target, weight, reduction = parts(rng, base)
    gradient = target[1] if reduction == 0 else []
    return [gradient, scores, target, weight, []], [reduction, rng.choice([-100, 1])]


OPS = {"nll_loss_forward": (4, forward), "nll_loss2d_forward": (2, forward),
       "nll_loss_backward": (4, backward), "nll_loss2d_backward": (2, backward)}
