"""Scores of the labels, and sets of the classes whose scores are large enough."""

from calibdask.kernels.compiled import compiled, unit


@compiled
def label_scores(scores, labels, into):
    """The score of each row's label into ``into`` (n,); 0 where the label is no class.

    ``scores`` (n, classes), or (n, 1) of class 1 of two.
    """
    classes = scores.shape[1]
    for r in range(scores.shape[0]):
        label = labels[r]
        if classes == 1:
            x = unit(scores[r, 0])
            into[r] = x if label == 1 else 1.0 - x
        else:
            into[r] = unit(scores[r, label]) if 0 <= label < classes else 0.0


@compiled
def count_sets(scores, labels, weights, group, limits, sums):
    """Sums over rows by group and label: of w, w**2, w for covered labels, w * size and w * size**2 of the sets.

    The set of a row holds the classes with ``1 - score <= limits[group]``. ``scores`` as in `label_scores`; ``sums``
    (5, groups, classes) has the type of the weights.
    """
    classes = sums.shape[2]
    for r in range(scores.shape[0]):
        g = group[r] if group.size else 0
        label, w = labels[r], weights[r]
        if not w > 0 or label < 0 or label >= classes:
            continue
        limit, size, covered = limits[g], 0, 0
        for c in range(classes):
            if scores.shape[1] == classes:
                x = unit(scores[r, c])
            else:
                x = unit(scores[r, 0])
                x = x if c == 1 else 1.0 - x
            within = 1.0 - x <= limit
            size += within
            covered |= within and c == label
        sums[0, g, label] += w
        sums[1, g, label] += w * w
        sums[2, g, label] += w * covered
        sums[3, g, label] += w * size
        sums[4, g, label] += w * size * size
