"""How good an order was: scores, crawl models, receipts and explanations; numbers only."""
