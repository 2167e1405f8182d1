"""What the ending of a URL's path says of the page: a file without links, or a page of a script."""

from __future__ import annotations

_ARCHIVES_AND_PROGRAMS = """
    7z apk bin bz2 cab deb dmg exe gz img iso jar lz lzma msi rar rpm tar tgz xz zip zst
"""
_IMAGES_AND_FONTS = """
    avif bmp cdr dxf eot eps gif heic ico jp2 jpeg jpg otf pbm pgm png pnm ppm psd svg tif tiff ttf
    webp woff woff2 xbm xpm
"""
_SOUND_AND_VIDEO = """
    3gp aac aif aiff asf avi flac flv m4a m4v mid midi mkv mov mp2 mp3 mp4 mpeg mpg oga ogg ogv
    opus swf wav webm wma wmv
"""
_DOCUMENTS = """
    djvu doc docm docx dvi epub mobi odp ods odt pdf pps ppsx ppt pptm pptx ps rtf xls xlsb xlsm
    xlsx
"""
_RECORDS = "npy npz parquet pickle pkl pyc sqlite wasm"

SKIP_EXTENSIONS = tuple(
    sorted(
        (
            _ARCHIVES_AND_PROGRAMS + _IMAGES_AND_FONTS + _SOUND_AND_VIDEO + _DOCUMENTS + _RECORDS
        ).split()
    )
)
"""Extensions, without dot and in lower case, of archives, programs, media, documents and binary
records: files that a crawl for links has no use for. Text is not among them (`.txt`, `.js`, `.py`,
`.json`), nor what is a word or part of a name as often (`.au`, `.ai`, `.war`): such a page may be
anything, and its content type decides."""

_MADE_ON_DEMAND = """
    asp aspx cfm cfml cgi do fcgi jhtml jsp jspx mvc nsf php php3 php4 php5 php7 phtml pl
"""
DYNAMIC = frozenset(_MADE_ON_DEMAND.split())
"""Extensions of pages that are made on demand; so is every URL with a question mark."""


def extension_of(name: str) -> str:
    """Return the extension of the last segment of a path, in lower case; nothing without one.

    The title of a wiki page in a namespace, such as `File:Sunset.jpg`, has none: it is known by its
    colon.
    """
    name = name.partition(";")[0]
    if "." not in name or ":" in name or "%3a" in name.lower():
        return ""
    return name.rpartition(".")[2].lower()
