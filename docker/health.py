"""The health check of a container: exit code 0 when its probe answers 200. Says why not.

Run as `python3 -I health.py /readyz`: without the packages of the project, because it runs every few seconds.
"""

import http.client
import sys

PORT = 8080
PATIENCE_S = 4.0


def main(path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(2000).decode(errors="replace")
    except OSError as error:
        print(f"{path} does not answer: {error}")
        return 1
    print(body.strip())
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
