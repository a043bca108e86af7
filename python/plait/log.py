"""Loggers with short coloured lines: level letter, time, process, place, message."""

import logging
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

__all__ = [
    "get_logger",
    "getLogger",
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "NOTSET",
    "WARNING",
]

_LETTERS = {CRITICAL: "C", ERROR: "E", WARNING: "W", INFO: "I", DEBUG: "D"}


class _Formatter(logging.Formatter):
    """Colours the head of a line by level when the stream is a terminal."""

    def __init__(self, colored=True):
        super().__init__(datefmt="%m%d %H:%M:%S")
        self._colored = colored

    def format(self, record):
        head = (
            "%s%%(asctime)s %%(process)d %%(pathname)s:%%(funcName)s:%%(lineno)d]"
            % _LETTERS.get(record.levelno, "U")
        )
        if self._colored:
            color = (
                31
                if record.levelno >= WARNING
                else 32
                if record.levelno >= INFO
                else 34
            )
            head = "\x1b[%dm%s\x1b[0m" % (color, head)
        self._style._fmt = head + " %(message)s"
        return super().format(record)


def get_logger(name=None, filename=None, filemode=None, level=WARNING):
    """A logger that writes to `filename` (mode 'a' by default) or to standard error.

    The handler is added once per named logger, however often it is asked for.
    """
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_plait_ready", False):
        logger._plait_ready = True
        if filename:
            handler = logging.FileHandler(filename, filemode or "a")
        else:
            handler = logging.StreamHandler()
            handler.setFormatter(_Formatter(getattr(handler.stream, "isatty", bool)()))
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger


def getLogger(name=None, filename=None, filemode=None, level=WARNING):
    """[deprecated] Use get_logger."""
    warnings.warn(
        "getLogger is deprecated; use get_logger", DeprecationWarning, stacklevel=2
    )
    return get_logger(name, filename, filemode, level)
