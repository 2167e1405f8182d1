"""The texts of a crawl's pages: their languages, which repeat others, and files of them."""
