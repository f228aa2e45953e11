"""Topics of the memories, the facts that they state, and their relations. SPEC 10"""
