"""The page: `mnemo ui`, on which a person sees, searches and corrects the memory in a browser. SPEC 18"""
