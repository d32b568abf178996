"""Scripts without downloads reach no other computer, and this one as ever."""

import http.server
import socket
import threading
import urllib.error
import urllib.request

import pytest
import requests

from ipu_tf.compat.offline import way_out, without_downloads
from ipu_tf.compat.offline.network import OfflineError, without_network

ADDRESS = "https://example.org/data/weights.h5"


@pytest.mark.parametrize(
    "download",
    [
        urllib.request.urlopen,
        lambda address: urllib.request.urlopen(urllib.request.Request(address)),
        lambda address: urllib.request.urlretrieve(address),
        requests.get,
        lambda address: requests.Session().post(address, data=b""),
    ],
)
def test_downloads_fail_and_name_their_address(download):
    with without_downloads(), pytest.raises(OfflineError, match=f"No download of {ADDRESS}: "):
        download(ADDRESS)


def test_sockets_reach_no_other_computer():
    with without_network():
        with pytest.raises(OfflineError, match="No download of example.org:80: "):
            socket.create_connection(("example.org", 80))
        with socket.socket() as connection, pytest.raises(OfflineError, match="192.0.2.1:80"):
            connection.connect(("192.0.2.1", 80))


def test_this_computer_is_reached():
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with without_network():
            for host in ("127.0.0.1", "localhost"):
                address = f"http://{host}:{server.server_port}/"
                assert urllib.request.urlopen(address).status == 200
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_everything_is_put_back():
    before = (
        urllib.request.OpenerDirector.open,
        socket.getaddrinfo,
        socket.socket.connect,
        requests.Session.send,
    )
    with without_network():
        assert socket.getaddrinfo is not before[1]
    assert before == (
        urllib.request.OpenerDirector.open,
        socket.getaddrinfo,
        socket.socket.connect,
        requests.Session.send,
    )
    assert "connect" not in vars(socket.socket)


def failed(cause):
    error = RuntimeError("no data")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("Name or service not known"),
        failed(urllib.error.URLError("timed out")),
        requests.exceptions.ConnectionError("no route"),
        Exception("URL fetch failure on https://example.org/weights.h5: None -- timed out"),
    ],
)
def test_a_failed_download_names_the_flag(error):
    assert "`ipu-tf run --offline` generates the data sets of `keras.datasets`" in way_out(error)


def test_other_errors_have_no_advice():
    assert way_out(ValueError("no")) is None
    assert way_out(OfflineError(ADDRESS)) is None
