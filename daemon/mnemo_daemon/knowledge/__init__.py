"""Services of topics: nodes of turn pairs, and the graph between them. SPEC 10"""
