"""Rendering: pages made by script are read as a browser without network shows them."""
