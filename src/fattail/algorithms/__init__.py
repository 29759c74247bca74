"""Algorithms: ``papers`` holds those of the papers, ``auto`` the default methods, ``parts`` the common parts."""
