"""What options of several commands are converted to, and the options that every command has.

``values`` holds the types of single values, ``formats`` what ``-o`` and its companions make, ``choosing`` the
options that choose rows, and ``anywhere`` those that may stand before or after a command's name.
"""
