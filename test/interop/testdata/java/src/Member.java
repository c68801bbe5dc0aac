import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.LongDeserializer;

/**
 * A member of a consumer group that says what happens to it, with the machine's monotonic time, so that lines of several members
 * can be put in order: NANOS assigned|revoked|lost|read|committed PARTITION [FROM [UNTIL]].
 */
class Member {
    /** GROUP TOPIC ASSIGNOR [INSTANCE]; the assignor is a class, or one of the broker's. SIGTERM ends it: it leaves its group. */
    static void run(Properties config, String[] args) throws Exception {
        Properties mine = Interop.with(config, "group.id", args[0], "auto.offset.reset", "earliest", "enable.auto.commit", "false",
            "max.poll.records", "200");
        mine.putAll(args[2].contains(".")
            ? Map.of("partition.assignment.strategy", args[2], "session.timeout.ms", "6000", "heartbeat.interval.ms", "300")
            : Map.of("group.protocol", "consumer", "group.remote.assignor", args[2]));
        if (args.length > 3) {
            mine.put("group.instance.id", args[3]);
        }
        AtomicBoolean stop = new AtomicBoolean();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop.set(true);
            try {
                main.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }));
        try (var consumer = new KafkaConsumer<>(mine, new LongDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of(args[1]), new Listener(consumer));
            while (!stop.get()) {
                ConsumerRecords<Long, Long> got = consumer.poll(Duration.ofMillis(100));
                if (got.isEmpty()) {
                    continue;
                }
                commit(consumer, read(got));
            }
            say("leaving", 0, "");
        }
        say("left", 0, "");
    }

    private static void say(String what, int part, String more) {
        Interop.say("%d %s %d %s", System.nanoTime(), what, part, more);
    }

    private static Map<TopicPartition, OffsetAndMetadata> read(ConsumerRecords<Long, Long> got) throws InterruptedException {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (TopicPartition part : got.partitions()) {
            long first = -1;
            long last = -1;
            for (var r : got.records(part)) {
                Interop.want(r.value() == r.offset() && (first < 0 || r.offset() == last + 1), "after %d: %s", last, r);
                first = first < 0 ? r.offset() : first;
                last = r.offset();
            }
            say("read", part.partition(), first + " " + (last + 1));
            next.put(part, new OffsetAndMetadata(last + 1, "by " + first));
        }
        Thread.sleep(20); // work
        return next;
    }

    private static void commit(KafkaConsumer<Long, Long> consumer, Map<TopicPartition, OffsetAndMetadata> next) {
        try {
            consumer.commitSync(next, Duration.ofSeconds(20));
            next.forEach((part, offset) -> say("committed", part.partition(), "" + offset.offset()));
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException e) {
            say("refused", 0, e.getClass().getSimpleName());
        }
    }

    private record Listener(KafkaConsumer<Long, Long> consumer) implements ConsumerRebalanceListener {
        public void onPartitionsAssigned(Collection<TopicPartition> parts) {
            say("joined", parts.size(), consumer.groupMetadata().memberId() + " " + consumer.groupMetadata().generationId());
            for (TopicPartition part : parts) {
                say("assigned", part.partition(), "" + consumer.position(part));
            }
        }

        public void onPartitionsRevoked(Collection<TopicPartition> parts) {
            parts.forEach(part -> say("revoked", part.partition(), ""));
        }

        public void onPartitionsLost(Collection<TopicPartition> parts) {
            parts.forEach(part -> say("lost", part.partition(), ""));
        }
    }
}
