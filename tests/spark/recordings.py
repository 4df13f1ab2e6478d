"""Small files in the form of the recorded data."""

import csv
import gzip
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from spark.workloads import recorded


def write_table(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Compressed where its name says so."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    written = text.getvalue().encode()
    file.write_bytes(gzip.compress(written) if file.suffix == ".gz" else written)


def record_posts(data: Path, texts: Sequence[str]) -> None:
    rows = [(1577854800 + number, number, f"user{number % 3}", text) for number, text in enumerate(texts)]
    write_table(data / recorded.POSTS, ("unix_time", "tweet_id", "screen_name", "text"), rows)


def record_air(data: Path, values: Iterable[tuple[str, str, str, object, str]]) -> None:
    """Hour, station, pollutant, value, flag."""
    header = ("local_hour_end", "station", "magnitude_code", "pollutant", "value", "flag")
    rows = [(hour, station, 1, pollutant, value, flag) for hour, station, pollutant, value, flag in values]
    write_table(data / recorded.AIR, header, rows)
    stations = [("28079004", "Plaza de España", 40.42, -3.71, 637), ("28079008", "Escuelas Aguirre", 40.43, -3.68, 672)]
    write_table(data / recorded.AIR_STATIONS, ("station", "name", "lat", "lon", "altitude_m"), stations)


def record_taxis(data: Path, rows: Iterable[tuple[int, str, float, float, int]]) -> None:
    write_table(data / recorded.TAXIS, ("unix_time", "cab_id", "lat", "lon", "occupied"), rows)


def record_flights(data: Path, rows: Iterable[Sequence[object]]) -> None:
    names = "unix_time,icao24,callsign,lat,lon,altitude_ft,groundspeed_kt,track_deg,vertical_rate_fpm"
    write_table(data / recorded.FLIGHTS, names.split(","), rows)


FLIGHT = (1533099600, "4067f2", "TOM2XE", 46.67923, 10.20218, 38000.0, 100.0, 292.4, 0.0)


def record_all(data: Path) -> None:
    """A little of everything."""
    record_air(data, [("2023-01-02T00:00", "28079004", "NO2", 41, "V"), ("x", "28079004", "NO2", "", "N")])
    record_posts(data, ["Happy New Year!", 'She said: "Wait,\nthere is more."'])
    record_taxis(data, [(1212390000 + 60 * k, f"cab{k % 2}", 37.7 + k / 1000, -122.4, k % 2) for k in range(50)])
    record_flights(data, [FLIGHT, (*FLIGHT[:3], "", "", *FLIGHT[5:])])
