#!/bin/sh
# The tour of tour.md as a script: each step sends requests with curl or runs `handover`, and checks the output. The first unexpected
# output ends the script with exit code 1. The script uses new orders, products and users, so it can run on any database, and more than
# once.
#
#   bootstrap/docs/tour.sh [URL]       default: http://127.0.0.1:8080
#
# Run it in the folder in which `handover serve` was started: tokens and the gateway's signature need the secrets in that folder.
# PROGRAM is the program that prints tokens; default: target/release/handover.
set -eu

base=${1:-http://127.0.0.1:8080}
handover=${PROGRAM:-target/release/handover}
json='Content-Type: application/json'
steps=0
answer=

fail() {
    printf 'tour: step %s: %s\n' "$steps" "$1" >&2
    exit 1
}

step() {
    steps=$((steps + 1))
    printf '\n%s. %s\n' "$steps" "$1"
}

for tool in curl sed tr od base64 openssl; do
    command -v "$tool" >/dev/null || fail "$tool is missing; install it"
done

# Limits the duration of every request.
curl() {
    command curl --max-time 60 "$@"
}

has_all() {
    for part in "$@"; do
        case $answer in *"$part"*) ;; *) return 1 ;; esac
    done
}

# Checks that the last response contains each of these texts.
expect() {
    printf '%s\n' "$answer"
    for part in "$@"; do
        has_all "$part" || fail "no $part in the response: $answer"
    done
}

# Repeats a command until its response contains the text: events take effect a moment after the request that caused them.
eventually() {
    text=$1
    shift
    tries=0
    until answer=$("$@") && has_all "$text"; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "no $text after $tries attempts; the last response: $answer"
        sleep 0.2
    done
}

# Prints the value of a field of the last response.
field() {
    printf '%s' "$answer" | tr -d '\n' | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"
}

# Makes users, idempotency keys and gateway transaction ids of this run unique.
run=$(date +%s)$(printf %03d $(($$ % 1000)))
token() {
    "$handover" token --user "$1" --role "${2:-user}" || fail "no token; is this the folder of the database?"
}
seller="Authorization: Bearer $(token "${run}1")"
buyer_id=${run}2
buyer="Authorization: Bearer $(token "$buyer_id")"
other="Authorization: Bearer $(token "${run}3")"
operator="Authorization: Bearer $(token 9 operator)"

step "The service is ready"
answer=$(curl -sS "$base/readyz")
expect '"code":"00000"' '"status":"ready"'

step "The seller lists a lamp"
answer=$(curl -sS "$base/api/v1/products" -H "$seller" -H "$json" -d '{"title":"Desk lamp","price":88.50}')
expect '"code":"00000"' '"status":"on_sale"' '"price":88.50'
product=$(field productId)

step "The buyer orders it"
answer=$(curl -sS "$base/api/v1/orders" -H "$buyer" -H "$json" -H "X-Idempotency-Key: lamp-$run" -d '{"productId":'"$product"'}')
expect '"code":"00000"' '"status":"pending"' '"payableAmount":88.50'
order=$(field orderId)

step "Repeating the request returns the same response"
answer=$(curl -sSi "$base/api/v1/orders" -H "$buyer" -H "$json" -H "X-Idempotency-Key: lamp-$run" -d '{"productId":'"$product"'}')
expect 'idempotent-replayed: true' '"orderId":'"$order"','

step "Another user can neither buy the lamp nor see the order"
answer=$(curl -sS "$base/api/v1/orders" -H "$other" -H "$json" -H "X-Idempotency-Key: lamp-$run" -d '{"productId":'"$product"'}')
expect '"code":"A0409"'
answer=$(curl -sS "$base/api/v1/orders/$order" -H "$other")
expect '"code":"A0404"'

step "The buyer starts a payment"
answer=$(curl -sS "$base/api/v1/orders/$order/payments" -H "$buyer" -H "$json" -H "X-Idempotency-Key: payment-$run" \
    -d '{"paymentMethod":"card"}')
expect '"code":"00000"' '"status":"PROCESSING"' '"amount":88.50'
payment=$(field paymentId)

step "The gateway reports the payment with a signed callback"
body='{"paymentId":'"$payment"',"gatewayTxnId":"txn-'"$run"'","result":"SUCCESS","amount":88.50}'
id=msg-$run
now=$(date +%s)
key=$(sed 's/whsec_//' handover.db-gateway-secret | base64 -d | od -An -vtx1 | tr -d ' \n')
signature=$(printf '%s.%s.%s' "$id" "$now" "$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
answer=$(curl -sS "$base/api/v1/payments/callback" -H "$json" -H "webhook-id: $id" \
    -H "webhook-timestamp: $now" -H "webhook-signature: v1,$signature" -d "$body")
expect '"code":"00000"'
answer=$(curl -sS "$base/api/v1/orders/$order" -H "$buyer")
expect '"status":"paid"'

step "A callback whose body differs from the signed one is rejected"
answer=$(curl -sS "$base/api/v1/payments/callback" -H "$json" -H "webhook-id: $id" \
    -H "webhook-timestamp: $now" -H "webhook-signature: v1,$signature" -d '{"amount":0.01}')
expect '"code":"A0301"'

step "The seller ships, the buyer confirms the receipt"
answer=$(curl -sS "$base/api/v1/orders/$order/ship" -H "$seller" -H "$json" -d '{"carrier":"SF","trackingNo":"T1"}')
expect '"code":"00000"' '"status":"shipped"'
answer=$(curl -sS "$base/api/v1/orders/$order/complete" -X POST -H "$buyer")
expect '"code":"00000"' '"status":"completed"'

step "The consumers have applied the events: notifications, credit, shipments, listings"
eventually '"newStatus":"completed"' curl -sS "$base/api/v1/notifications" -H "$buyer"
expect '"orderId":'"$order"','
eventually '"score":101' curl -sS "$base/api/v1/credit" -H "$buyer"
expect '"code":"00000"'
eventually '"orderId":'"$order"',' curl -sS "$base/api/v1/shipments?as=seller" -H "$seller"
expect '"code":"00000"'
eventually '"productId":'"$product"',' curl -sS "$base/api/v1/listings" -H "$seller"
expect '"code":"00000"'

step "An operator grants the buyer money, points and a coupon"
answer=$(curl -sS "$base/api/v1/ops/wallets/$buyer_id/deposits" -H "$operator" -H "$json" -d '{"amount":50.00}')
expect '"code":"00000"' '"balanceAfter":50.00'
answer=$(curl -sS "$base/api/v1/ops/points/$buyer_id/grants" -H "$operator" -H "$json" -d '{"points":300}')
expect '"code":"00000"'
answer=$(curl -sS "$base/api/v1/ops/coupons" -H "$operator" -H "$json" \
    -d '{"userId":'"$buyer_id"',"discount":10.00,"minSpend":50.00,"expiresAt":"2099-01-01T00:00:00Z"}')
expect '"code":"00000"'
coupon=$(field couponId)

step "The buyer orders another lamp with all of them"
answer=$(curl -sS "$base/api/v1/products" -H "$seller" -H "$json" -d '{"title":"Floor lamp","price":51.50}')
expect '"code":"00000"'
floor_lamp=$(field productId)
answer=$(curl -sS "$base/api/v1/orders" -H "$buyer" -H "$json" -H "X-Idempotency-Key: floor-lamp-$run" \
    -d '{"productId":'"$floor_lamp"',"couponId":'"$coupon"',"walletAmount":40.00,"points":150}')
expect '"code":"00000"' '"totalAmount":51.50' '"payableAmount":0.00'
second=$(field orderId)
eventually '"frozen":40.00' curl -sS "$base/api/v1/wallet" -H "$buyer"
expect '"available":10.00'

step "Nothing is left to pay: the order is paid as soon as every hold exists"
eventually '"code":"00000"' curl -sS "$base/api/v1/orders/$second/payments" -H "$buyer" -H "$json" \
    -H "X-Idempotency-Key: second-payment-$run" -d '{"paymentMethod":"card"}'
answer=$(curl -sS "$base/api/v1/orders/$second" -H "$buyer")
expect '"status":"paid"'

step "The buyer requests a refund, and everything is refunded"
answer=$(curl -sS "$base/api/v1/orders/$second/refunds" -H "$buyer" -H "$json" -d '{"reason":"too tall"}')
expect '"code":"00000"'
eventually '"available":50.00' curl -sS "$base/api/v1/wallet" -H "$buyer"
expect '"frozen":0.00'
answer=$(curl -sS "$base/api/v1/orders/$second" -H "$buyer")
expect '"status":"refunded"'

step "Another user orders the lamp; the seller declines the order and takes the lamp off the shelf"
answer=$(curl -sS "$base/api/v1/orders" -H "$other" -H "$json" -H "X-Idempotency-Key: third-$run" -d '{"productId":'"$floor_lamp"'}')
expect '"code":"00000"' '"status":"pending"'
third=$(field orderId)
answer=$(curl -sS "$base/api/v1/orders/$third/cancel" -H "$seller" -H "$json" -d '{"offShelf":true}')
expect '"code":"00000"' '"cancelReason":"seller"'
answer=$(curl -sS "$base/api/v1/products/$floor_lamp" -H "$seller")
expect '"status":"off_shelf"'
answer=$(curl -sS "$base/api/v1/notifications" -H "$other")
expect '"orderId":'"$third"',' '"newStatus":"cancelled"'

step "An operator reads the outbox, the timeline and the totals"
eventually '"status":"SENT"' curl -sS "$base/api/v1/ops/outbox?aggregateId=$order&eventType=ORDER_PAID" -H "$operator"
expect '"eventType":"ORDER_PAID"'
answer=$(curl -sS "$base/api/v1/ops/orders/$order/timeline" -H "$operator")
expect '"code":"00000"' 'ORDER_CREATED' 'fulfillment'
answer=$(curl -sS "$base/api/v1/ops/stats" -H "$operator")
expect '"code":"00000"' '"oldestPendingSeconds":'

step "An operator sends the events of the order again; each consumer ignores events that it has applied"
answer=$(curl -sS "$base/api/v1/ops/outbox/redrive" -H "$operator" -H "$json" \
    -d '{"filter":{"status":"SENT","aggregateType":"Order","aggregateId":'"$order"'},"reason":"tour-'"$run"'"}')
expect '"code":"00000"' '"dryRun":false' '"skipped":0'
eventually 'duplicate ignored by fulfillment' curl -sS "$base/api/v1/ops/orders/$order/timeline" -H "$operator"
eventually 'duplicate ignored by buyer-credit' curl -sS "$base/api/v1/ops/orders/$order/timeline" -H "$operator"
answer=$(curl -sS "$base/api/v1/credit" -H "$buyer")
expect '"score":101'

step "The command line shows the same timeline, and the audit log"
answer=$("$handover" order timeline "$order" --output json)
expect ORDER_STATUS_CHANGED
answer=$("$handover" audit list --changes)
expect "tour-$run"

step "Database, events and effects agree"
answer=$("$handover" reconcile --since 1h --output json) || fail "reconcile has findings: $answer"
expect '"sound": true'

printf '\ntour: %s steps, every response as expected\n' "$steps"
