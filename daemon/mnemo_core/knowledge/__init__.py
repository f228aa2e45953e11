"""Topics of what is remembered, and their relations. SPEC 10"""
