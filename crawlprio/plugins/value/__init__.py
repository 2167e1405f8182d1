"""What pages are worth by their text: value models, orderings by value, kept texts, novelty."""
