"""The object store: code, data and checkpoints of functions.

base    the protocol ObjectStore, and open_object_store(url)
local   objects as files of a folder
s3      objects of an S3 bucket
"""
