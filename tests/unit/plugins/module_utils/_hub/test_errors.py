# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub import errors
from ansible_collections.modelops.vllm.plugins.module_utils._hub.errors import Failure, classify


def link(*classes: str, text: str = "", status: int | None = None, **more: t.Any) -> dict[str, t.Any]:
    return {"classes": classes, "text": text, "status": status, "retry_after": None, "errno": None, **more}


def explain(*chain: dict[str, t.Any], token: bool = False) -> Failure:
    return classify(chain, "org/m", "v1", "http://hub", token)


# The classes of the wrapper in huggingface_hub 0.36, where the errors of the Hub are also those of requests.
LOCAL = link("LocalEntryNotFoundError", "EntryNotFoundError", "HfHubHTTPError", "RequestException", "OSError")


@pytest.mark.parametrize(
    ("chain", "id_", "passing"),
    [
        ([link("GatedRepoError", "RepositoryNotFoundError", "HfHubHTTPError", status=403)], "gated", False),
        ([link("LocalEntryNotFoundError"), link("GatedRepoError", status=401)], "gated", False),
        ([link("DisabledRepoError", status=403)], "disabled", False),
        ([link("RepositoryNotFoundError", status=401)], "repo-not-found", False),
        ([link("RevisionNotFoundError", status=404)], "revision-not-found", False),
        (
            [link("HfHubHTTPError", text="Invalid credentials in Authorization header", status=401)],
            "token-refused",
            False,
        ),
        ([link("RemoteEntryNotFoundError", status=404)], "file-not-found", False),
        ([link("HfHubHTTPError", text="http://hub/api", status=404)], "not-found", False),
        ([link("HfHubHTTPError", text="for url: http://hub/x", status=403)], "forbidden", False),
        ([link("HfHubHTTPError", text="for url: http://cdn/x", status=403)], "cdn-refused", True),
        ([link("LocalEntryNotFoundError"), link("HfHubHTTPError", status=500)], "hub-busy", True),
        ([link("HfHubHTTPError", status=429)], "hub-busy", True),
        ([link("ConnectError", "TransportError")], "connection", True),
        ([link("LocalEntryNotFoundError"), link("ConnectionError", "OSError")], "connection", True),
        ([link("ChunkedEncodingError")], "connection", True),
        ([LOCAL, link("ConnectError", "TransportError")], "connection", True),
        ([LOCAL, link("ProxyError", "ConnectionError", "RequestException")], "connection", True),
        ([LOCAL, link("ReadTimeout"), link("EntryNotFoundError")], "connection", True),
        ([LOCAL, link("RemoteEntryNotFoundError", "EntryNotFoundError", status=404)], "file-not-found", False),
        ([LOCAL, link("HTTPStatusError", status=404)], "file-not-found", False),
        ([LOCAL, link("HfHubHTTPError", status=503)], "hub-busy", True),
        ([LOCAL], "download-failed", True),
        ([LOCAL, link("SSLError", "ConnectionError", text="CERTIFICATE_VERIFY_FAILED")], "certificate", False),
        ([link("SSLError", text="[SSL: CERTIFICATE_VERIFY_FAILED]")], "certificate", False),
        ([link("FileMetadataError", "OSError")], "not-a-hub", False),
        ([link("ValueError", text="The file is too large to be downloaded using")], "file-too-large", False),
        ([link("OSError", errno=errno.ENOSPC)], "disk-full", False),
        ([link("RuntimeError"), link("OSError", errno=errno.EDQUOT)], "disk-full", False),
        ([link("ModuleNotFoundError", "ImportError")], "no-hub-client", False),
        ([link("OSError", text="Consistency check failed")], "download-failed", True),
        ([], "download-failed", True),
    ],
)
def test_the_cause_is_found_anywhere_in_the_chain(chain: list[dict[str, t.Any]], id_: str, passing: bool) -> None:
    failure = explain(*chain)
    assert (failure.id, failure.passing) == (id_, passing)
    assert failure.remedy


def test_the_innermost_text_is_quoted_and_the_waiting_time_kept() -> None:
    failure = explain(
        link("LocalEntryNotFoundError", text="check your connection"),
        link("HfHubHTTPError", text="\n503 for url http://hub/x\nmore", status=503, retry_after="7"),
    )
    assert "503 for url http://hub/x)" in failure.message
    assert "more" not in failure.message
    assert failure.retry_after == 7.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("-7", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 90.0),
        ("Wed, 21 Oct 2026 07:28:00", 90.0),
        ("Wed, 21 Oct 2026 09:28:00 +0200", 90.0),
        ("Wed, 21 Oct 2026 07:20:00 GMT", 0.0),
        ("Wed, 99 Oct 2026", 0.0),
        ("soon", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        (None, 0.0),
    ],
)
@pytest.mark.case("rate-limit-429")
def test_retry_after_is_a_number_or_a_date(header, seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors.time, "time", lambda: 1792567590.0)  # 07:26:30
    assert explain(link("X", status=429, retry_after=header)).retry_after == seconds


def test_whether_a_token_was_given_is_said() -> None:
    assert "no token" in explain(link("GatedRepoError")).message
    assert "the given token" in explain(link("GatedRepoError"), token=True).message


@pytest.mark.parametrize("text", ["CAS error: reconstruction", "http://hub/api/models/o/m/xet-read-token/c", "xorb"])
@pytest.mark.case("xet-proxy-dns", "mirror-xet-token-404")
def test_a_failure_of_xet_is_known_as_one(text: str) -> None:
    assert explain(link("RuntimeError", text=text)).xet
    assert not explain(link("RuntimeError", text="case closed")).xet
