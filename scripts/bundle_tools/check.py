"""Opens a bundle with the tools of others: DSSE, in-toto, RO-Crate and JSON Schema.

    check.py BUNDLE PUBLIC_KEY SCHEMAS [CONTEXT]

SCHEMAS is a folder with the schemas of the documents (`acb schema NAME`). CONTEXT is a copy of the RO-Crate 1.1 JSON-LD
context for machines without a network; the validator fetches it otherwise. Exit status 1 when a tool refuses.
"""

import base64
import hashlib
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema
import requests
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1.statement import Statement
from rocrate.rocrate import ROCrate
from rocrate_validator import models, services
from rocrate_validator.utils.http import HttpRequester
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

CONTEXT_URL = "https://w3id.org/ro/crate/1.1/context"


def statements(bundle: Path, key_file: Path) -> None:
    """Both envelopes: signature by securesystemslib, statement by in-toto, digests by hashlib."""
    public = load_pem_public_key(key_file.read_bytes())
    for path in sorted((bundle / "attestations").iterdir()):
        document = json.loads(path.read_text())
        key = SSlibKey.from_crypto(public, keyid=document["signatures"][0]["keyid"])
        envelope = Envelope.from_dict(document)  # takes the document apart
        envelope.verify([key], threshold=1)
        payload = json.loads(envelope.payload)
        predicate_type = payload["predicateType"]
        statement = json_format.ParseDict(payload, Statement([], "", {}).pb)
        Statement.copy_from_pb(statement).validate()
        for subject in payload["subject"]:
            found = hashlib.sha256((bundle / subject["name"]).read_bytes()).hexdigest()
            assert found == subject["digest"]["sha256"], subject["name"]
        if predicate_type == "https://slsa.dev/provenance/v1":
            json_format.ParseDict(payload["predicate"], provenance_pb2.Provenance())
        print(f"securesystemslib, in-toto-attestation: {path.name}: signature good, {predicate_type}, "
              f"{len(payload['subject'])} subjects with their digests")
        tampered = Envelope(envelope.payload + b" ", envelope.payload_type, envelope.signatures)
        try:
            tampered.verify([key], threshold=1)
        except Exception:
            continue
        raise SystemExit(f"{path.name}: a changed payload was accepted")


def stand_in(context: bytes) -> None:
    """Answers requests for the context with the copy."""

    def get(self: HttpRequester, url: str, **options: object) -> requests.Response:
        if url != CONTEXT_URL:
            return self.session.get(url, **options)
        response = requests.Response()
        response.status_code, response._content, response.url = 200, context, url
        response.headers["Content-Type"] = "application/ld+json"
        return response

    HttpRequester.get = get


def crate(bundle: Path, context: Path | None) -> bool:
    """RO-Crate 1.1 and Process Run Crate, by roc-validator and by ro-crate-py."""
    if context is not None:
        stand_in(context.read_bytes())
    good = True
    for profile in ("ro-crate-1.1", "process-run-crate-0.5"):
        settings = services.ValidationSettings(
            rocrate_uri=str(bundle),
            profile_identifier=profile,
            requirement_severity=models.Severity.REQUIRED,
        )
        result = services.validate(settings)
        good &= not result.has_issues()
        print(f"roc-validator: {profile}: {'conforms' if not result.has_issues() else 'DOES NOT CONFORM'}")
        for issue in result.get_issues():
            print(f"  {issue.severity.name}: {issue.check.identifier}: {issue.message}")
    read = ROCrate(bundle)
    actions = [entity for entity in read.contextual_entities if entity.type == "CreateAction"]
    print(f"rocrate: {read.name}: {len(read.data_entities)} data entities, {len(actions)} actions")
    return good


def schemas(bundle: Path, folder: Path) -> None:
    """Documents against the schemas that the program prints."""
    documents = {"bundle": "bundle.json", "merkle": "merkle.json", "report": "tables/report.json"}
    for name, path in documents.items():
        schema = json.loads((folder / f"{name}.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(json.loads((bundle / path).read_text()))
        print(f"jsonschema: {path}: valid")


def main() -> int:
    bundle, key, folder = (Path(word) for word in sys.argv[1:4])
    context = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    statements(bundle, key)
    schemas(bundle, folder)
    suite = ElementTree.parse(bundle / "junit.xml").getroot().find("testsuite")
    print(f"ElementTree: junit.xml: {suite.get('tests')} tests, {suite.get('failures')} failures")
    return 0 if crate(bundle, context) else 1


if __name__ == "__main__":
    sys.exit(main())
