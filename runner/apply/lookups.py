

def lookup(table, indices, rows):
    """Rows of a table of which this rank holds `rows`; zeros where another rank holds the row."""
    hidden = (indices < rows.start) | (indices >= rows.stop)
    if len(rows) == 0:
        return table.new_zeros([*indices.shape, *table.shape[1:]])
    found = aten.embedding.default(table, (indices - rows.start).masked_fill(hidden, 0))
    return found.masked_fill(hidden.reshape([*hidden.shape] + [1] * (table.ndim - 1)), 0)


def gather(x, dim, indices, rows):
    """x.gather(dim, indices) where this rank holds `rows` of that dim; zeros where another rank holds the row."""
    hidden = (indices < rows.start) | (indices >= rows.stop)
    if len(rows) == 0:
        return x.new_zeros(indices.shape)
    return x.gather(dim, (indices - rows.start).masked_fill(hidden, 0)).masked_fill(hidden, 0)


def index_select(x, dim, indices, rows):
    """x.index_select(dim, indices) where this rank holds `rows` of that dim; zeros for rows of other ranks."""
    hidden = (indices < rows.start) | (indices >= rows.stop)
    shape = [1] * x.ndim
    shape[dim] = -1
    if len(rows) == 0:
        return x.new_zeros([*x.shape[:dim], indices.numel(), *x.shape[dim:][1:]])
    return x.index_select(dim, (indices - rows.start).masked_fill(hidden, 0)).masked_fill(hidden.reshape(shape), 0)
