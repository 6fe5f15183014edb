"""One module per page; each has a `page(reader, filters)` that draws its panels."""
