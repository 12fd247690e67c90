"""Where files come from: a folder on disk, files in the request, or a commit; unsaved buffers on top."""
