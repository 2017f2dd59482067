"""What random requests need to get further than the door: tokens, signatures, and ids of things that are there."""

import base64
import hashlib
import hmac
import os
import random
import time

import schemathesis

SELLER, BUYER, OPERATOR = os.environ["REQUEST_TOKENS"].split(",")
GATEWAY_KEY = base64.b64decode(os.environ["REQUEST_GATEWAY_SECRET"].removeprefix("whsec_"))

# Of its own: schemathesis watches over the common one.
DICE = random.Random(1)
# The first ids of a new database; a random one of 2^53 names nothing.
FIRST_IDS = range(1, 40)
ID_FIELDS = ("id", "userId", "aggregateId", "productId", "paymentId", "refundId", "couponId")


class Signed:
    """Signs what is really sent (Standard Webhooks)."""

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


def likely(values):
    """Puts ids of things that may be there in the place of most of the others."""
    if not isinstance(values, dict):
        return
    for name in ID_FIELDS:
        if isinstance(values.get(name), (int, str)) and DICE.random() < 0.8:
            values[name] = DICE.choice(FIRST_IDS)
    # An operator has one tenant.
    if "tenantId" in values and DICE.random() < 0.8:
        values["tenantId"] = 1


def caller(path):
    """Who most probably may do that; now and then somebody else."""
    if DICE.random() < 0.15:
        return DICE.choice([SELLER, BUYER, OPERATOR])
    if path.startswith("/api/v1/ops/"):
        return OPERATOR
    if path.startswith("/api/v1/products") or path.endswith("/ship"):
        return SELLER
    return BUYER


@schemathesis.hook
def before_call(context, case, kwargs):
    likely(case.path_parameters)
    likely(case.query)
    likely(case.body)
    # The same few keys come again and again, and a key is for one request.
    if case.headers and "X-Idempotency-Key" in case.headers and DICE.random() < 0.8:
        case.headers["X-Idempotency-Key"] = str(DICE.getrandbits(64))
    if case.path.endswith("/callback"):
        if DICE.random() < 0.9:
            kwargs["auth"] = Signed()
    elif DICE.random() < 0.95:
        case.headers["Authorization"] = "Bearer " + caller(case.path)
