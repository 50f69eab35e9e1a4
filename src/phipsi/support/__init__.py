"""Files, archives, progress bars, processes and servers: what any room may use."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "array_archives": "ArrayArchive opened_file read_archive",
        "atomic_files": (
            "MissingPath UnusablePath atomic_write atomic_write_text checked_page checked_target "
            "named_as path_of"
        ),
        "limited_process": "Ended LimitedProcess Message NotStarted TooSlow serve",
        "loopback_server": "LoopbackServer",
        "optional_imports": "import_optional",
        "progress": "Progress make_progress",
        "short_texts": "fields_in_line one_line shapes_in_line value_in_line",
    },
)
