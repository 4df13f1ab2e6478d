"""What can be set, with the bounds that follow from it."""

import math

import msgspec

WINDOWS_AHEAD = 4  # windows of one width that a record's life spans at most
MADE_AHEAD_S_MAX = 60.0  # how far the clock of whoever made a record may be ahead of ours


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    window_s: int = 10  # the narrowest window; each wider one is `WINDOWS_AHEAD` times as wide
    retention_s: float = 3600.0  # of publications that do not say when they expire
    retention_s_max: float = 7 * 86400.0  # of those that do
    remember_s: float = 3600.0  # how long after its end a distinct subscription is known to have been given things
    repeat_s: float = 1.0  # T_R of repeated queries
    disk_bytes_max: int = 10 * 1024**3
    evict_from: float = 0.9  # of that: publications are given up from here on
    fsync: bool = False  # wait for the disk at every write
    write_buffer_bytes: int = 4 * 1024**2  # of each database
    rewrite_from: int = 1000  # removed records; fewer do not make the base database worth rewriting
    rewrite_check_s: float = 600.0  # between two counts of what has expired in the base database

    def __post_init__(self) -> None:
        if self.window_s < 1 or self.retention_s_max < self.retention_s or self.repeat_s <= 0:
            raise ValueError(
                "windows last a second or more, retentions are not above their maximum, repetitions differ"
            )

    @property
    def widths_s(self) -> list[int]:
        """Of the windows, narrow to wide: enough for every publication."""
        widths = [self.window_s]
        while widths[-1] * WINDOWS_AHEAD < self.retention_s_max:
            widths.append(widths[-1] * WINDOWS_AHEAD)
        return widths

    def expiry_s(self, made_s: float, expires_s: float) -> float:
        """When a publication expires here."""
        if math.isinf(expires_s):
            return made_s + self.retention_s
        return min(expires_s, made_s + self.retention_s_max)
