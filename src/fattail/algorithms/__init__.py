"""One file per paper, one short function per numbered algorithm."""
