"""One module for each page; a module that stands here is a page, with `-` for `_` in its name."""
