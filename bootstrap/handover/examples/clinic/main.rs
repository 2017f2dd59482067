//! An axum service on PostgreSQL and RabbitMQ, with migrations of its own beside those of the outbox.
//!
//! Set `DATABASE_URL` and `AMQP_URL`, run it, and book an appointment:
//! `curl -X POST localhost:3000/appointments -H 'content-type: application/json' -d '{"patient":"ann"}'`.
//! You see the text message on stdout, and the reminder under `/reminders`. `kill -9` it before: the next start sends and writes them.

use std::env;
use std::path::Path;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use handover::{Data, Event, Outbox, RabbitMq, at_least_once, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::migrate::Migrator;
use sqlx::{PgConnection, PgPool, Postgres};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "appointment.booked", aggregate = "appointment")]
struct AppointmentBooked {
    #[event(key)]
    appointment: i64,
    patient: String,
}

#[derive(Clone)]
struct Clinic {
    pool: PgPool,
    outbox: Outbox<Postgres>,
}

#[derive(Deserialize)]
struct Booking {
    patient: String,
}

async fn book(State(clinic): State<Clinic>, Json(booking): Json<Booking>) -> Result<Json<i64>, Failure> {
    let mut tx = clinic.pool.begin().await?;
    let insert = sqlx::query_scalar("INSERT INTO appointments (patient) VALUES ($1) RETURNING id");
    let appointment = insert.bind(&booking.patient).fetch_one(&mut *tx).await?;
    clinic.outbox.enqueue(&mut tx, AppointmentBooked { appointment, patient: booking.patient }).await?;
    tx.commit().await?;
    Ok(Json(appointment))
}

async fn reminders(State(clinic): State<Clinic>) -> Result<Json<Vec<String>>, Failure> {
    Ok(Json(sqlx::query_scalar("SELECT patient FROM reminders ORDER BY 1").fetch_all(&clinic.pool).await?))
}

/// Exactly once: a row of the same database.
async fn remind(event: Event<AppointmentBooked>, connection: &mut PgConnection) -> handover::Result {
    let insert = sqlx::query("INSERT INTO reminders (appointment, patient) VALUES ($1, $2)");
    insert.bind(event.appointment).bind(&event.patient).execute(connection).await?;
    Ok(())
}

/// Stands for the client of a provider of text messages.
struct Sms;

/// At least once: a call of another system.
async fn sms(event: Event<AppointmentBooked>, _: Data<Sms>) -> handover::Result {
    println!("sms to {} (key {})", event.patient, event.event_id());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&env::var("DATABASE_URL")?).await?;
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clinic/migrations");
    Migrator::new(migrations).await?.run(&pool).await?;
    let outbox = Outbox::builder(pool.clone())
        .name("clinic")
        .broker(RabbitMq::new(&env::var("AMQP_URL")?)?)
        .data(Sms)
        .consumer("reminders", in_transaction(remind))
        .consumer("sms", at_least_once(sms))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let router = Router::new()
        .route("/appointments", post(book))
        .route("/reminders", get(reminders))
        .with_state(Clinic { pool, outbox });
    let listener =
        tokio::net::TcpListener::bind(env::var("LISTEN").unwrap_or("127.0.0.1:3000".to_owned())).await?;
    println!("clinic listens on http://{}", listener.local_addr()?);
    let stopped = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, router).with_graceful_shutdown(stopped).await?;
    running.stop(Duration::from_secs(15)).await?;
    Ok(())
}

struct Failure(Box<dyn std::error::Error>);

impl<E: Into<Box<dyn std::error::Error>>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.into())
    }
}

impl axum::response::IntoResponse for Failure {
    fn into_response(self) -> axum::response::Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}
