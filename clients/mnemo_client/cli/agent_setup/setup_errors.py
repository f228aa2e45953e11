"""The errors of `mnemo setup`: each leaves every file as it is."""

from mnemo_client.errors import MnemoError


class ConfigFileError(MnemoError):
    """A configuration file cannot be read, understood or written."""


class ForeignEntryError(MnemoError):
    """The file has an entry of the same name that `mnemo setup` did not write."""
