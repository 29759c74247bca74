"""One file per paper, one short function per numbered algorithm.

``auto`` holds the methods that are told nothing, ``common`` what several files share.
"""
