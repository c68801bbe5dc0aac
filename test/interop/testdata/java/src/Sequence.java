import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;

/** A producer as it comes, which numbers the records of each partition, and what has become of them. */
class Sequence {
    /** TOPIC PARTITIONS COUNT MILLIS: so many records in all, over about so long. A line for every thousand confirmed. */
    static void feed(Properties config, String[] args) throws Exception {
        int parts = Integer.parseInt(args[1]);
        long count = Long.parseLong(args[2]);
        long nanos = Long.parseLong(args[3]) * 1_000_000;
        // Idempotent with acks=all and endless retries is how producers come; only the time until one gives up is longer.
        Properties mine = Interop.with(config, "delivery.timeout.ms", "180000", "max.block.ms", "180000");
        AtomicReference<Exception> fault = new AtomicReference<>();
        AtomicLong confirmed = new AtomicLong();
        long begin = System.nanoTime();
        try (var producer = new KafkaProducer<>(mine, new LongSerializer(), new LongSerializer())) {
            for (long n = 0; n < count && fault.get() == null; n++) {
                long early = begin + nanos * n / count - System.nanoTime();
                if (early > 1_000_000) {
                    Thread.sleep(early / 1_000_000);
                }
                int part = (int) (n % parts);
                long number = n / parts;
                producer.send(new ProducerRecord<>(args[0], part, null, number), (meta, e) -> {
                    if (e != null) {
                        fault.compareAndSet(null, e);
                        return;
                    }
                    // A batch that was sent again is confirmed without an offset if it is older than the last five.
                    if (meta.hasOffset() && meta.offset() != number) {
                        fault.compareAndSet(null, new IllegalStateException(number + " is at " + meta));
                    }
                    if (confirmed.incrementAndGet() % 1000 == 0) {
                        Interop.say("confirmed %d", confirmed.get());
                    }
                });
            }
        }
        if (fault.get() != null) {
            throw fault.get();
        }
        Interop.same(confirmed.get(), count, "records confirmed");
        Interop.say("fed %d", count);
    }

    /** TOPIC PARTITIONS COUNT: every number is there, once, at its place. */
    static void judge(Properties config, String[] args) {
        int parts = Integer.parseInt(args[1]);
        long count = Long.parseLong(args[2]);
        Map<Integer, Long> next = new HashMap<>();
        long seen = 0;
        try (var consumer = new KafkaConsumer<>(config, new LongDeserializer(), new LongDeserializer())) {
            List<TopicPartition> all = java.util.stream.IntStream.range(0, parts).mapToObj(p -> new TopicPartition(args[0], p)).toList();
            consumer.assign(all);
            consumer.seekToBeginning(Collections.emptyList());
            long ends = consumer.endOffsets(all).values().stream().mapToLong(v -> v).sum();
            Interop.same(ends, count, "records by the end offsets");
            long deadline = System.nanoTime() + Duration.ofMinutes(1).toNanos();
            while (seen < count) {
                Interop.want(System.nanoTime() < deadline, "only %d of %d records came", seen, count);
                for (ConsumerRecord<Long, Long> r : consumer.poll(Duration.ofSeconds(1))) {
                    long want = next.merge(r.partition(), 1L, Long::sum) - 1;
                    Interop.want(r.value() == want && r.offset() == want, "want number %d there: %s", want, r);
                    seen++;
                }
            }
        }
        Interop.say("judged %d", count);
    }
}
