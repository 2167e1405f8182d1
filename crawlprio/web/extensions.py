"""File extensions in URLs: files that cannot have links, and dynamically generated pages."""

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
data: files that are of no use to a crawl for links. Text files (`.txt`, `.js`, `.py`, `.json`) are
not included, nor are extensions that are just as often a word or part of a name (`.au`, `.ai`,
`.war`): such a page may be anything, so its content type decides."""

_MADE_ON_DEMAND = """
    asp aspx cfm cfml cgi do fcgi jhtml jsp jspx mvc nsf php php3 php4 php5 php7 phtml pl
"""
DYNAMIC = frozenset(_MADE_ON_DEMAND.split())
"""Extensions of dynamic pages; a URL with a question mark is dynamic too."""


def extension_of(name: str) -> str:
    """Return the extension of the last segment of a path in lower case, or an empty string.

    The title of a wiki page in a namespace, such as `File:Sunset.jpg`, is recognised by its colon
    and has no extension.
    """
    name = name.partition(";")[0]
    if "." not in name or ":" in name or "%3a" in name.lower():
        return ""
    return name.rpartition(".")[2].lower()
