"""The sources that models are pulled from: package indexes and the Hugging Face hub."""
