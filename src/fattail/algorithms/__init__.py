"""Algorithms: ``papers`` holds the numbered ones, ``auto`` the default methods, ``parts`` what several share."""
