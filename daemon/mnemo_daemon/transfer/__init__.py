"""Export, import and merging of stores."""
