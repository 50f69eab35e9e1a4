"""The rim: robot files in and out, conventions of other tools, the command line."""
