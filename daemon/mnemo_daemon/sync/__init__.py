"""The shared folder of several devices: one group key, and the encrypted files that each device writes. SPEC 21

Nothing here knows of the store: an entry is bytes. `cipher` alone imports the library (extra `sync`), when it is used.
"""
