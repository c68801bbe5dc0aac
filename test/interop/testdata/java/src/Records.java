import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Offsets by time, records deleted, what consumers do about it, and times that the log stamps. */
class Records {
    private static final long BEGIN = 1_700_000_000_000L;
    private static final TopicPartition ONE = new TopicPartition("records-a", 0);
    private static final TopicPartition EMPTY = new TopicPartition("records-a", 1);

    static void run(Properties config) throws Exception {
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(List.of(new NewTopic("records-a", 2, (short) 1), new NewTopic("records-stamped", 1, (short) 1)
                .configs(Map.of("message.timestamp.type", "LogAppendTime", "max.message.bytes", "100000")))).all().get();
            fill(config);
            offsets(admin);
            consumer(config);
            deleteRecords(admin, config);
            stamped(config);
        }
        Interop.say("done");
    }

    /** 1,000 records, 10 ms after one another, but for number 500, which has the largest time. */
    private static void fill(Properties config) throws Exception {
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int n = 0; n < 1000; n++) {
                long time = n == 500 ? BEGIN + 1_000_000 : BEGIN + n * 10;
                var sent = producer.send(new ProducerRecord<>(ONE.topic(), 0, time, "key", "value-" + n));
                if (n % 100 == 99) {
                    Interop.same(sent.get().offset(), (long) n, "offset"); // so that there are several batches
                }
            }
            Interop.same(producer.partitionsFor(ONE.topic()).size(), 2, "partitions by the producer");
        }
    }

    private static long offset(Admin admin, TopicPartition part, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(part, spec)).partitionResult(part).get().offset();
    }

    private static void offsets(Admin admin) throws Exception {
        Interop.same(offset(admin, ONE, OffsetSpec.earliest()), 0L, "earliest");
        Interop.same(offset(admin, ONE, OffsetSpec.latest()), 1000L, "latest");
        Interop.same(offset(admin, ONE, OffsetSpec.forTimestamp(BEGIN + 2500)), 250L, "at a time");
        Interop.same(offset(admin, ONE, OffsetSpec.forTimestamp(BEGIN + 2501)), 251L, "after a time");
        Interop.same(offset(admin, ONE, OffsetSpec.forTimestamp(BEGIN + 10_000)), 500L, "beyond all but one");
        Interop.same(offset(admin, ONE, OffsetSpec.forTimestamp(BEGIN + 2_000_000)), -1L, "beyond all");
        var max = admin.listOffsets(Map.of(ONE, OffsetSpec.maxTimestamp())).partitionResult(ONE).get();
        Interop.same(max.offset(), 500L, "offset of the largest time");
        Interop.same(max.timestamp(), BEGIN + 1_000_000, "the largest time");
        Interop.same(offset(admin, EMPTY, OffsetSpec.latest()), 0L, "latest of an empty partition");
        Interop.same(offset(admin, EMPTY, OffsetSpec.maxTimestamp()), -1L, "largest time of an empty partition");
        Interop.same(offset(admin, ONE, OffsetSpec.earliestLocal()), 0L, "earliest local");
        Interop.say("latest tiered: %d", offset(admin, ONE, OffsetSpec.latestTiered()));
    }

    private static void consumer(Properties config) {
        try (var consumer = new KafkaConsumer<>(Interop.with(config, "auto.offset.reset", "none"), new StringDeserializer(), new StringDeserializer())) {
            var at = consumer.offsetsForTimes(Map.of(ONE, BEGIN + 2500, EMPTY, BEGIN));
            Interop.same(at.get(ONE).offset(), 250L, "offset by time");
            Interop.same(at.get(ONE).timestamp(), BEGIN + 2500, "time by time");
            Interop.same(at.get(EMPTY), null, "time in an empty partition");
            Interop.same(consumer.beginningOffsets(List.of(ONE)).get(ONE), 0L, "beginning");
            Interop.same(consumer.endOffsets(List.of(ONE, EMPTY)), Map.of(ONE, 1000L, EMPTY, 0L), "end");
            Interop.want(consumer.listTopics().containsKey("records-a"), "not listed: %s", consumer.listTopics());
            consumer.assign(List.of(ONE, EMPTY));
            consumer.seek(ONE, 998);
            consumer.seekToEnd(List.of(EMPTY));
            int seen = 0;
            for (int i = 0; i < 20 && seen < 2; i++) {
                seen += consumer.poll(Duration.ofSeconds(1)).count();
            }
            Interop.same(seen, 2, "records from 998");
            Interop.same(consumer.currentLag(ONE).orElse(-1), 0L, "lag");
            consumer.seek(ONE, 5000);
            Interop.refused(OffsetOutOfRangeException.class, "an offset beyond the end", () -> poll(consumer));
        }
    }

    private static void poll(KafkaConsumer<String, String> consumer) {
        for (int i = 0; i < 20; i++) {
            consumer.poll(Duration.ofSeconds(1));
        }
    }

    private static void deleteRecords(Admin admin, Properties config) throws Exception {
        var marks = admin.deleteRecords(Map.of(ONE, RecordsToDelete.beforeOffset(300))).lowWatermarks();
        Interop.same(marks.get(ONE).get().lowWatermark(), 300L, "low watermark");
        Interop.same(offset(admin, ONE, OffsetSpec.earliest()), 300L, "earliest after the deletion");
        Interop.same(offset(admin, ONE, OffsetSpec.forTimestamp(BEGIN)), 300L, "by time after the deletion");
        Interop.refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, "a deletion beyond the end",
            () -> admin.deleteRecords(Map.of(ONE, RecordsToDelete.beforeOffset(2000))).all().get());
        try (var consumer = new KafkaConsumer<>(Interop.with(config, "auto.offset.reset", "earliest"), new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(ONE));
            consumer.seek(ONE, 10);
            long first = -1;
            for (int i = 0; i < 20 && first < 0; i++) {
                for (var r : consumer.poll(Duration.ofSeconds(1))) {
                    first = first < 0 ? r.offset() : first;
                }
            }
            Interop.same(first, 300L, "first record of who asked for a deleted one");
        }
        // All that there is: the offset -1 says so.
        admin.deleteRecords(Map.of(ONE, RecordsToDelete.beforeOffset(-1))).all().get();
        Interop.same(offset(admin, ONE, OffsetSpec.earliest()), 1000L, "earliest when all are deleted");
    }

    private static void stamped(Properties config) throws Exception {
        Map<String, Long> stamps = new HashMap<>();
        long before = System.currentTimeMillis() - 60_000;
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            var sent = producer.send(new ProducerRecord<>("records-stamped", 0, BEGIN, "a", "b")).get();
            Interop.want(sent.timestamp() > before, "the producer hears of the time %d", sent.timestamp());
            stamps.put("a", sent.timestamp());
            Interop.refused(RecordTooLargeException.class, "a record larger than the topic takes",
                () -> producer.send(new ProducerRecord<>("records-stamped", 0, BEGIN, "large", "x".repeat(200_000))).get());
        }
        try (var consumer = new KafkaConsumer<>(Interop.with(config, "auto.offset.reset", "earliest"), new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition("records-stamped", 0)));
            consumer.seekToBeginning(List.of());
            for (int i = 0; i < 20; i++) {
                for (var r : consumer.poll(Duration.ofSeconds(1))) {
                    Interop.same(r.timestamp(), stamps.get(r.key()), "the time that the log gave");
                    Interop.same(r.timestampType(), TimestampType.LOG_APPEND_TIME, "its kind");
                    return;
                }
            }
        }
        throw new AssertionError("the stamped record did not come");
    }
}
