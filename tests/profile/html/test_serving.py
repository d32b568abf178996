"""The server of a page: this computer alone, this page alone."""

import http.client
import socket
import threading

import pytest

from ipu_tf.profile.html.serving import server


@pytest.fixture
def running():
    with server("<p>page Ω</p>") as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(running, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", running.server_port, timeout=10)
    headers = {"Host": f"127.0.0.1:{running.server_port}"} | headers
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def test_it_answers_with_the_page(running):
    status, content, headers = ask(running)
    assert (status, content) == (200, "<p>page Ω</p>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert ask(running, Host=f"localhost:{running.server_port}")[0] == 200
    assert ask(running, method="HEAD")[:2] == (200, "")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:80", ""])
def test_it_refuses_other_names_of_hosts(running, host):
    assert ask(running, Host=host)[0] == 403


def test_it_has_no_other_pages(running):
    for path in ("/etc/passwd", "/../setup.cfg", "/index.html"):
        assert ask(running, path)[0] == 404
    assert ask(running, method="POST")[0] == 501


def test_it_listens_on_the_loopback_interface_alone(running):
    assert running.server_address[0] == "127.0.0.1"
    assert running.address == f"http://127.0.0.1:{running.server_port}/"


def test_a_port_that_is_taken_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="Address already in use"):
            server("page", taken.getsockname()[1])
