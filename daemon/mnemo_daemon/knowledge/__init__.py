"""Services of topics and facts: nodes of turn pairs and the graph between them, and the graph of facts. SPEC 10"""
