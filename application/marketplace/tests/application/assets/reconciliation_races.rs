//! Reads of the reconciliation: whatever changes between two of them, it reports no contradiction; slow ones delay its next
//! part.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use handover_outbox::ports::*;
use handover_outbox::wrap::{Wrapped, Wraps};
use marketplace::jobs::ContinuousReconciliation;
use marketplace::ports::*;
use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace::{App, ConsistencySettings};
use marketplace_domain::*;
use tokio::time::Instant;

use super::market::{Market, SpentAssets, operator, refund_report};
use crate::support::{BUYER, Process, by, event_id, gateway, pass, secs};

type Change = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Makes a change before one of the reads of a view, or before each.
struct Interruption {
    reads: AtomicUsize,
    /// `None`: before each read.
    before_read: Option<usize>,
    change: Change,
}

struct InterruptedStore {
    inner: Arc<MarketStore>,
    interruption: Arc<Interruption>,
}

#[async_trait]
impl Store for InterruptedStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        let inner = self.inner.view().await?;
        let interruption = Arc::clone(&self.interruption);
        Ok(Box::new(Wrapped(InterruptedView { inner, interruption })))
    }
}

struct InterruptedView {
    inner: Box<dyn MarketView>,
    interruption: Arc<Interruption>,
}

impl Wraps for InterruptedView {
    type Inner = dyn MarketView;

    fn inner(&mut self) -> &mut Self::Inner {
        &mut *self.inner
    }

    async fn before(&mut self, _port: &'static str, _method: &'static str) -> Result<(), StoreError> {
        let read = self.interruption.reads.fetch_add(1, Ordering::Relaxed);
        if self.interruption.before_read.is_none_or(|before| read == before) {
            (self.interruption.change)().await;
        }
        Ok(())
    }
}

impl ProductQueriesWrapper for InterruptedView {}
impl OrderQueriesWrapper for InterruptedView {}
impl PaymentQueriesWrapper for InterruptedView {}
impl RefundQueriesWrapper for InterruptedView {}
impl GatewayReportQueriesWrapper for InterruptedView {}
impl FindingQueriesWrapper for InterruptedView {}
impl InvoiceQueriesWrapper for InterruptedView {}
impl AssetQueriesWrapper for InterruptedView {}
impl EffectQueriesWrapper for InterruptedView {}
impl NotificationQueriesWrapper for InterruptedView {}
impl CreditQueriesWrapper for InterruptedView {}
impl IdQueriesWrapper for InterruptedView {}
impl RequestQueriesWrapper for InterruptedView {}
impl PersonalTextQueriesWrapper for InterruptedView {}
impl OutboxQueriesWrapper for InterruptedView {}
impl OperatorQueriesWrapper for InterruptedView {}
impl HistoryQueriesWrapper for InterruptedView {}
impl ConsumeQueriesWrapper for InterruptedView {}
impl DeadLetterQueriesWrapper for InterruptedView {}
impl ArchiveQueriesWrapper for InterruptedView {}
impl AuditQueriesWrapper for InterruptedView {}
impl LeaseQueriesWrapper for InterruptedView {}
impl JobQueriesWrapper for InterruptedView {}
impl MonitoringQueriesWrapper for InterruptedView {}
impl WebhookQueriesWrapper for InterruptedView {}

/// A change that other users and the gateway make.
#[derive(Debug, Clone, Copy)]
enum Event {
    PaymentSucceeds,
    LatePaymentSucceeds,
    OrderIsCancelled,
    OrderIsCancelledAndProductSoldAgain,
    /// The order is already cancelled.
    ProductIsSoldAgain,
    RefundSucceeds,
    RefundFailsAndIsRequestedAgain,
}

/// Writes the listing change of an order, as the inventory consumer does: it leads from the product to the order.
async fn occupy_listing(process: &Process, order: &Order) {
    let change = ListingChange {
        tenant: order.tenant,
        seller: order.seller,
        product: order.product,
        order: order.id,
        aggregate_seq: 1,
        kind: ListingChangeKind::Occupied,
        event_id: event_id("occupied"),
        at: order.create_time,
    };
    let mut unit = process.app.tx.begin().await.unwrap();
    unit.change_listings(&[change]).await.unwrap();
    unit.commit().await.unwrap();
}

/// Prepares the order and returns the change.
async fn prepared(market: &Market, event: Event) -> Change {
    let order = market.order(SpentAssets::default()).await;
    let payment = market.process.started_payment(order.id).await;
    let is_refund = matches!(event, Event::RefundSucceeds | Event::RefundFailsAndIsRequestedAgain);
    if is_refund {
        market.process.settle(&payment, PaymentResult::Success).await.unwrap();
    }
    if matches!(event, Event::LatePaymentSucceeds | Event::ProductIsSoldAgain) {
        market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
    }
    let refund = if is_refund { Some(market.refund(&order).await) } else { None };
    let process = market.process.clone();
    Box::new(move || {
        let process = process.clone();
        let order = order.clone();
        let payment = payment.clone();
        let refund = refund.as_ref().map(|refund| refund.id);
        Box::pin(async move {
            let report = async |result| {
                let command = refund_report(refund.unwrap(), result);
                process.app.payments.settle_refund(&gateway(), command).await.unwrap();
            };
            match event {
                Event::PaymentSucceeds | Event::LatePaymentSucceeds => {
                    process.settle(&payment, PaymentResult::Success).await.unwrap();
                }
                Event::OrderIsCancelled | Event::OrderIsCancelledAndProductSoldAgain => {
                    process.app.ordering.cancel(&by(BUYER), order.id).await.unwrap();
                }
                Event::ProductIsSoldAgain => {}
                Event::RefundSucceeds => report(RefundResult::Success).await,
                Event::RefundFailsAndIsRequestedAgain => {
                    report(RefundResult::Failed).await;
                    let again = RequestRefund { order: order.id, reason: "again".into(), off_shelf: false };
                    process.app.payments.request_refund(&by(BUYER), again).await.unwrap();
                }
            }
            if matches!(event, Event::OrderIsCancelledAndProductSoldAgain | Event::ProductIsSoldAgain) {
                let sold = process.app.ordering.place(&by(11), PlaceOrder::of(order.product)).await.unwrap();
                occupy_listing(&process, &sold).await;
            }
        })
    })
}

fn interrupted(market: &Market, interruption: &Arc<Interruption>) -> App {
    let app = market.app().clone();
    let inner = Arc::clone(app.tx.store());
    let store = Arc::new(InterruptedStore { inner, interruption: Arc::clone(interruption) });
    let tx = app.tx.with_store(store);
    app.with_tx(tx)
}

/// Reconciles while the change is made before one of the reads. Returns whether the change was made.
async fn reconcile_interrupted(event: Event, before_read: usize) -> bool {
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    let change = prepared(&market, event).await;
    pass(secs(1)).await;
    let interruption = Interruption { reads: AtomicUsize::new(0), before_read: Some(before_read), change };
    let interruption = Arc::new(interruption);
    let app = interrupted(&market, &interruption);
    let command = Reconcile {
        tenant: None,
        since: chrono::DateTime::UNIX_EPOCH,
        until: market.world.now() + chrono::TimeDelta::hours(1),
        grace: secs(60),
        repair: false,
        reason: None,
    };
    let report = app.operations.reconcile(&operator().operator().unwrap(), command).await.unwrap();
    assert_eq!(report.findings, [], "{event:?} before read {before_read}");
    interruption.reads.load(Ordering::Relaxed) > before_read
}

#[tokio::test(start_paused = true)]
async fn change_between_two_reads_is_not_a_contradiction() {
    for event in [
        Event::PaymentSucceeds,
        Event::LatePaymentSucceeds,
        Event::OrderIsCancelled,
        Event::OrderIsCancelledAndProductSoldAgain,
        Event::ProductIsSoldAgain,
        Event::RefundSucceeds,
        Event::RefundFailsAndIsRequestedAgain,
    ] {
        let mut read = 0;
        while reconcile_interrupted(event, read).await {
            read += 1;
        }
        assert!(read > 20, "{event:?}: only {read} reads");
    }
}

#[tokio::test(start_paused = true)]
async fn both_jobs_of_the_reconciliation_read_at_most_a_tenth_of_the_time() {
    const READ: std::time::Duration = std::time::Duration::from_millis(10);
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    for _ in 0..20 {
        market.order(SpentAssets::default()).await;
    }
    // The first job compares what changed one to two minutes ago.
    pass(secs(90)).await;
    let change: Change = Box::new(|| Box::pin(pass(READ)));
    let interruption = Arc::new(Interruption { reads: AtomicUsize::new(0), before_read: None, change });
    let operations = interrupted(&market, &interruption).operations;
    let settings = ConsistencySettings { batch: NonZeroU32::MIN, ..ConsistencySettings::default() };
    let jobs = ContinuousReconciliation::new(operations, settings);
    let begun = Instant::now();
    let (recent, all) = tokio::join!(jobs.compare_recent(), jobs.compare_all());
    assert_eq!((recent.unwrap(), all.unwrap()), (0, 0));
    let reads = u32::try_from(interruption.reads.load(Ordering::Relaxed)).unwrap();
    assert!(reads > 2 * 20, "{reads} reads of two runs over 20 orders, one per page");
    let elapsed = begun.elapsed();
    assert!(READ * reads * 10 <= elapsed, "{reads} reads of {READ:?} each in {elapsed:?}");
}
