"""Topics of what is remembered, the facts that it states, and their relations. SPEC 10"""
