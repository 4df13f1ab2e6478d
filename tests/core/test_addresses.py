"""The address that a slice announces."""

import socket

import pytest

from braid.addresses import announced_host
from braid.config import Cluster, ConfigError


def test_an_address_is_announced_as_it_is() -> None:
    assert announced_host("127.0.0.1", Cluster()) == "127.0.0.1"
    assert announced_host("10.0.0.7", Cluster(announce="10.0.0.9")) == "10.0.0.7"


@pytest.mark.parametrize("all_addresses", ["0.0.0.0", "::"])
def test_all_addresses_are_announced_as_the_settings_say(all_addresses: str) -> None:
    cluster = Cluster(host=all_addresses, announce="broker.example")
    assert announced_host(all_addresses, cluster) == "broker.example"


def test_a_door_on_all_addresses_is_announced_where_the_links_are() -> None:
    assert announced_host("0.0.0.0", Cluster(host="10.0.0.7")) == "10.0.0.7"


def test_all_addresses_are_announced_as_what_the_host_name_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "3f2c1d")
    monkeypatch.setattr(socket, "gethostbyname", {"3f2c1d": "172.18.0.5"}.__getitem__)
    assert announced_host("0.0.0.0", Cluster(host="0.0.0.0")) == "172.18.0.5"


def test_loopback_is_no_address_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostbyname", lambda _name: "127.0.1.1")
    with pytest.raises(ConfigError, match=r"127\.0\.1\.1.*cluster\.announce"):
        announced_host("0.0.0.0", Cluster(host="0.0.0.0"))


def test_a_host_name_that_means_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> str:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", fail)
    with pytest.raises(ConfigError, match="Name or service not known"):
        announced_host("0.0.0.0", Cluster(host="0.0.0.0"))
