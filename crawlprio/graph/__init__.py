"""What a page, a visit, a link and a graph are, in arrays and in files."""
