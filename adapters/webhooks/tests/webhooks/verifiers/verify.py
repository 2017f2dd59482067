"""Verifies the requests in the file named by the argument with libraries of other authors. Prints the number of checks."""

import base64
import json
import sys

import standardwebhooks
import svix.webhooks
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def is_accepted_by(webhook, errors, request, key):
    try:
        webhook(key).verify(request["body"], request["headers"])
        return True
    except errors:
        return False


def is_signed_asymmetrically(request, key):
    headers = request["headers"]
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{request['body']}".encode()
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
    signatures = [text.split(",", 1) for text in headers["webhook-signature"].split(" ")]
    for signature in [base64.b64decode(text) for version, text in signatures if version == "v1a"]:
        try:
            public.verify(signature, content)
            return True
        except InvalidSignature:
            pass
    return False


def results(request, key):
    if key.startswith("whpk_"):
        return {"cryptography": is_signed_asymmetrically(request, key)}
    return {
        "standardwebhooks": is_accepted_by(
            standardwebhooks.Webhook, standardwebhooks.WebhookVerificationError, request, key
        ),
        "svix": is_accepted_by(svix.webhooks.Webhook, svix.webhooks.WebhookVerificationError, request, key),
    }


checks = 0
for case in json.load(open(sys.argv[1], encoding="utf-8")):
    for name, accepted in results(case["request"], case["key"]).items():
        checks += 1
        if accepted != case["isValid"]:
            sys.exit(f"{case['name']}: {name} {'accepts' if accepted else 'rejects'} the request")
print(checks)
