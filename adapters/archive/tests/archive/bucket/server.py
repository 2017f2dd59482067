"""An S3 server (moto) that verifies signatures and permissions.

It prints its address and the keys of three identities as JSON. For each line of its standard input, the key of an object, it prints
the bytes of the object in hexadecimal digits. It ends with its standard input.
"""

import json
import logging
import os
import sys

import boto3
from moto import settings
from moto.server import ThreadedMotoServer

BUCKET = "archive"

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
address = "http://%s:%d" % server.get_host_and_port()


def client(service):
    return boto3.client(
        service,
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="setup",
        aws_secret_access_key="setup",
    )


def keys(user, policy):
    """Creates a user with this policy, or without any permission."""
    iam = client("iam")
    iam.create_user(UserName=user)
    if policy:
        iam.put_user_policy(UserName=user, PolicyName="archive", PolicyDocument=json.dumps(policy))
    created = iam.create_access_key(UserName=user)["AccessKey"]
    return {"id": created["AccessKeyId"], "secret": created["SecretAccessKey"]}


def temporary_keys(role, policy):
    """Assumes a role with this policy."""
    iam = client("iam")
    arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    iam.put_role_policy(RoleName=role, PolicyName="archive", PolicyDocument=json.dumps(policy))
    created = client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
    return {"id": created["AccessKeyId"], "secret": created["SecretAccessKey"], "token": created["SessionToken"]}


client("s3").create_bucket(Bucket=BUCKET)
# The permissions that the README names; on every bucket, so that a missing one is reported as missing.
policy = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"], "Resource": "*"}
    ],
}
identities = {
    "writer": keys("writer", policy),
    "unprivileged": keys("unprivileged", None),
    "session": temporary_keys("session", policy),
}
print(json.dumps({"address": address, **identities}), flush=True)
# From now on requests need a valid signature and a permission.
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

for line in sys.stdin:
    stored = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(BUCKET, line.rstrip("\n"))
    print(stored.value.hex() if stored else "", flush=True)
os._exit(0)
