//! rskafka against a broker: batches whose largest timestamp is 1 ms above that of every record, in each codec, are stored,
//! and come back as they were sent.

use std::collections::BTreeMap;
use std::env::var;
use std::error::Error;

use rskafka::chrono::{DateTime, TimeDelta, Utc};
use rskafka::client::partition::{Compression, OffsetAt, UnknownTopicHandling};
use rskafka::client::{ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;

/// Batches of each codec.
const BATCHES: i64 = 8;

fn record(n: i64, time: DateTime<Utc>) -> Record {
    Record {
        key: Some(format!("key {n}").into_bytes()),
        value: Some(format!("value {n}").into_bytes()),
        headers: BTreeMap::from([("from".to_owned(), b"rust".to_vec())]),
        timestamp: time,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let user = Credentials::new("seb".to_owned(), var("KEY")?);
    let client = ClientBuilder::new(vec![var("BROKER")?])
        .sasl_config(SaslConfig::ScramSha512(user))
        .build()
        .await?;
    client.controller_client()?.create_topic("rust", 1, 1, 10_000).await?;
    let partition = client.partition_client("rust", 0, UnknownTopicHandling::Retry).await?;

    let mut sent = Vec::new();
    for codec in [Compression::NoCompression, Compression::Gzip, Compression::Lz4, Compression::Snappy, Compression::Zstd] {
        for _ in 0..BATCHES {
            let n = sent.len() as i64;
            let first = DateTime::from_timestamp_millis(1_700_000_000_000 + 10 * n).ok_or("no such time")?;
            // rskafka writes 0 ms after the first record, and 1 ms after it as the largest timestamp.
            let times = [first + TimeDelta::microseconds(900), first + TimeDelta::microseconds(1_800)];
            let batch: Vec<_> = (n..).zip(times).map(|(n, time)| record(n, time)).collect();
            let offsets = partition.produce(batch, codec).await?;
            if offsets != [n, n + 1] {
                return Err(format!("batch at {n}: stored at {offsets:?}").into());
            }
            sent.extend([record(n, first), record(n + 1, first)]);
        }
    }

    let mut got = Vec::new();
    while got.len() < sent.len() {
        let (records, end) = partition.fetch_records(got.len() as i64, 1..1_000_000, 10_000).await?;
        if records.is_empty() || end != sent.len() as i64 {
            return Err(format!("{} records at {}, and the end is {end}", records.len(), got.len()).into());
        }
        got.extend(records.into_iter().map(|r| r.record));
    }
    if got != sent {
        return Err(format!("read {got:?}").into());
    }
    let last = sent[sent.len() - 1].timestamp;
    for (at, want) in [
        (OffsetAt::Earliest, 0),
        (OffsetAt::Latest, sent.len() as i64),
        (OffsetAt::Timestamp(last), sent.len() as i64 - 2),
    ] {
        let offset = partition.get_offset(at).await?;
        if offset != want {
            return Err(format!("{at:?} is {offset}, not {want}").into());
        }
    }
    println!("{} batches", 5 * BATCHES);
    Ok(())
}
