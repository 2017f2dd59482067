use handover_domain::*;
use serde_json::Value;
#[test]
fn probe() {
    for t in ["1E5","1e5","1e+5","-0","-0.0","1e400","88.50","123456789012345678901234567890"] {
        let v: Value = serde_json::from_str(t).unwrap();
        println!("{t} -> {v} i64 {:?}", v.as_i64());
    }
    for t in ["88.50","\"88.50\"","1e2","{\"$serde_json::private::Number\":\"88.50\"}","88.5","-0"," 88.50 "] {
        println!("money {t} -> {:?}", serde_json::from_str::<Money>(t));
    }
    println!("{:?}", serde_json::from_value::<Money>(serde_json::json!("88.50")));
    let env = |at: &str| format!(r#"{{"eventId":"uuid","eventType":"X","aggregateType":"Order","aggregateId":1,"occurredAt":"{at}","traceId":"t","payload":{{}}}}"#);
    for at in ["2026-02-04T10:30:00Z","2026-02-04 10:30:00z","0000-01-01T00:00:00+23:59","9999-12-31T23:59:59-01:00","+12026-02-04T10:30:00Z","2016-12-31T23:59:60Z","2026-02-04T10:30:00.1234567891Z","2026-02-04T10:30:00+08:00","-0001-02-04T10:30:00Z", "2026-02-04T10:30:60Z","2026-02-04T24:00:00Z"] {
        let e = Envelope::parse(&env(at));
        println!("{at} -> {:?}", e.as_ref().map(|e| e.to_json()));
        if let Ok(e) = e { println!("   again {:?}", Envelope::parse(&e.to_json()).map(|x| x == e)); }
    }
    for d in ["2026-02-04","2026-2-4"," 2026 - 02 - 04 ","+12026-02-04","2026-02-30","-0001-01-01","26-1-1"] {
        println!("date {d} {:?}", d.parse::<chrono::NaiveDate>());
    }
    for d in ["+5","05","5 ","0","9007199254740991","9007199254740992"] { println!("id {d} {:?}", d.parse::<UserId>()); }
    println!("{:?}", serde_json::from_str::<Envelope>(&env("2026-02-04T10:30:00Z").replace("\"payload\":{}", "\"payload\":{\"$serde_json::private::Number\":\"1\"}")));
    println!("{:?}", Envelope::parse(&env("2026-02-04T10:30:00Z").replace("\"payload\":{}", "\"payload\":{\"a\":{\"$serde_json::private::Number\":\"1\"}}")));
    println!("{:?}", Envelope::parse(&env("2026-02-04T10:30:00Z").replace("\"payload\":{}", "\"payload\":{\"a\":{\"$serde_json::private::Number\":\"x\"}}")));
    for v in [i64::MAX] { println!("{:?}", Partition::of(TenantId::try_from(MAX_ID).unwrap(), v).number()); }
    println!("{:?}", RetryPolicy::Exponential{base:std::time::Duration::from_millis(200),cap:std::time::Duration::from_secs(5),max_attempts:10.try_into().unwrap(),jitter:Jitter::percent(100).unwrap()}.after(1.try_into().unwrap(), u64::MAX));
    println!("{}", OrderNo::new("2026-02-04T10:30:00Z".parse().unwrap(), OrderId::try_from(1234).unwrap()));
}
