from .. import LOADED_AS


def describe():
    return f"{__name__} of {LOADED_AS}"
