"""Hooks that make random requests valid more often: tokens, signatures, and ids of existing objects."""

import base64
import hashlib
import hmac
import os
import random
import time

import schemathesis

SELLER, BUYER, OPERATOR = os.environ["REQUEST_TOKENS"].split(",")
GATEWAY_KEY = base64.b64decode(os.environ["REQUEST_GATEWAY_SECRET"].removeprefix("whsec_"))

# A separate generator: schemathesis controls the global one.
RANDOM = random.Random(1)
# The first ids of a new database; a random id below 2^53 never exists.
FIRST_IDS = range(1, 40)
ID_FIELDS = ("id", "userId", "aggregateId", "productId", "paymentId", "refundId", "couponId")


class WebhookSignature:
    """Signs the body that is sent (Standard Webhooks)."""

    def __call__(self, request):
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        now = str(int(time.time()))
        signed = b".".join([b"msg_1", now.encode(), body])
        signature = base64.b64encode(hmac.new(GATEWAY_KEY, signed, hashlib.sha256).digest()).decode()
        request.headers["webhook-id"] = "msg_1"
        request.headers["webhook-timestamp"] = now
        request.headers["webhook-signature"] = f"v1,{signature}"
        return request


def use_existing_ids(values):
    """Replaces most ids by ids that may exist."""
    if not isinstance(values, dict):
        return
    for name in ID_FIELDS:
        if isinstance(values.get(name), (int, str)) and RANDOM.random() < 0.8:
            values[name] = RANDOM.choice(FIRST_IDS)
    # An operator belongs to one tenant.
    if "tenantId" in values and RANDOM.random() < 0.8:
        values["tenantId"] = 1


def caller(path):
    """Returns a caller who is probably allowed to send the request, and sometimes another caller."""
    if RANDOM.random() < 0.15:
        return RANDOM.choice([SELLER, BUYER, OPERATOR])
    if path.startswith("/api/v1/ops/"):
        return OPERATOR
    if path.startswith("/api/v1/products") or path.endswith("/ship"):
        return SELLER
    return BUYER


@schemathesis.hook
def before_call(context, case, kwargs):
    use_existing_ids(case.path_parameters)
    use_existing_ids(case.query)
    use_existing_ids(case.body)
    # schemathesis repeats a few keys, but a key is for one request.
    if case.headers and "X-Idempotency-Key" in case.headers and RANDOM.random() < 0.8:
        case.headers["X-Idempotency-Key"] = str(RANDOM.getrandbits(64))
    if case.path.endswith("/callback"):
        if RANDOM.random() < 0.9:
            kwargs["auth"] = WebhookSignature()
    elif RANDOM.random() < 0.95:
        case.headers["Authorization"] = "Bearer " + caller(case.path)
