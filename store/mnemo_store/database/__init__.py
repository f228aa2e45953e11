"""The LMDB database: environment, integrity check and format migrations."""
