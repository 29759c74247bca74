"""One file per paper or cited baseline, one short function per numbered algorithm."""
