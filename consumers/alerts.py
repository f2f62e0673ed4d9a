"""Tells a webhook of an episode of conflicts: one POST, off the worker's thread, whose failure harms nothing."""

import json
import logging
from collections.abc import Mapping
from http.client import HTTPException
from threading import Thread
from typing import Final
from urllib.error import HTTPError

# Of the standard library, because nothing else that a worker needs brings an HTTP client along.
from urllib.request import HTTPRedirectHandler, Request, build_opener

LOG = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0


class _NoRedirects(HTTPRedirectHandler):
    """Takes a redirect for a refusal: followed, it is a GET, which tells nobody, to wherever the answer says."""

    def redirect_request(self, *_: object) -> None:
        """Return no request."""


_OPENER: Final = build_opener(_NoRedirects)


def post(url: str, body: Mapping[str, object], timeout_s: float = TIMEOUT_S) -> None:
    """POST JSON once; what goes wrong is logged. `url` is http or https: the settings see to that.

    `timeout_s` is for each step: to connect, and each read. Redirects are not followed.
    """
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "twotick"}
    request = Request(url, data=data, headers=headers, method="POST")  # noqa: S310 - as above
    try:
        with _OPENER.open(request, timeout=timeout_s) as answer:
            LOG.info("the alert's webhook was told", extra={"status": answer.status})
    except HTTPError as error:
        error.close()
        LOG.warning("the alert's webhook refuses", extra={"status": error.code})
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a host that is no name
        LOG.warning("the alert's webhook cannot be told", extra={"error": str(error)})


def tell(url: str, body: Mapping[str, object]) -> None:
    """POST from a thread of its own, so that a webhook that stalls holds up nothing."""
    if url:
        Thread(target=post, args=(url, body), name="twotick-alert", daemon=True).start()
