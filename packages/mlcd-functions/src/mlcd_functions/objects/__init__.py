"""The object store: code, data and checkpoints of functions.

    objects = open_object_store("file:///folder")   or "s3://bucket/prefix", its endpoint and keys from AWS_*
    objects.get(key) → bytes                   ObjectNotFound where there is none
    objects.put(key, data, if_absent=True)     ObjectExists where there is one; without if_absent it is replaced
    objects.get_version(key) → (bytes, version)   objects.put(key, data, if_version=version)   ObjectExists where it has changed
    objects.keys(prefix) → sorted list         objects.exists(key)   objects.delete(key)   no error where there is none
    objects.upload(path, key)                  objects.download(key, path)   whole files, without reading them into memory

base    the protocol ObjectStore, and open_object_store(url)
local   objects as files of a folder
s3      objects of an S3 bucket

ObjectError                    the object store could not do what was asked
├── ObjectNotFound
├── ObjectExists               put(if_absent=True) or put(if_version=…) came too late
├── ObjectRefused              no permission, or read-only
├── ObjectTooLarge             it has more bytes than were asked for
└── ObjectStoreUnavailable     still failing after the retries
"""
