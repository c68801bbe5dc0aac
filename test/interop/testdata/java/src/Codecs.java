import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;

/** Many records with every codec, whose content is a function of their number. */
class Codecs {
    static final String[] ALL = {"none", "gzip", "snappy", "lz4", "zstd"};
    static final long BEGIN = 1_700_000_000_000L;

    static byte[] key(int n) {
        return n % 7 == 0 ? null : ("key-" + n % 1000).getBytes();
    }

    static byte[] value(int n) {
        if (n % 11 == 0) {
            return null;
        }
        byte[] value = new byte[n * 31 % 257];
        for (int i = 0; i < value.length; i++) {
            value[i] = (byte) (i % 16 < 8 ? 'a' : n >> i % 4 * 8);
        }
        return value;
    }

    static long timestamp(int n) {
        return BEGIN + (n ^ 5);
    }

    static List<Header> headers(int n) {
        List<Header> list = new ArrayList<>();
        list.add(new RecordHeader("number", ByteBuffer.allocate(4).putInt(n).array()));
        for (int i = 0; i < n % 4; i++) {
            list.add(new RecordHeader("same", i == 1 ? null : new byte[] {(byte) i}));
        }
        return list;
    }

    /** TOPIC COUNT: so many records, with one codec after the other. */
    static void fill(Properties config, String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        int each = count / ALL.length;
        for (int c = 0; c < ALL.length; c++) {
            Properties mine = Interop.with(config, "compression.type", ALL[c], "linger.ms", "20", "batch.size", "65536");
            AtomicReference<Exception> fault = new AtomicReference<>();
            try (var producer = new KafkaProducer<>(mine, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int n = c * each; n < (c + 1) * each; n++) {
                    producer.send(new ProducerRecord<>(args[0], null, timestamp(n), key(n), value(n), headers(n)), (meta, e) -> {
                        if (e != null) {
                            fault.compareAndSet(null, e);
                        }
                    });
                }
            }
            if (fault.get() != null) {
                throw fault.get();
            }
            Interop.say("filled %s %d", ALL[c], each);
        }
    }

    /** TOPIC COUNT ISOLATION: reads them all, looks at every one, and at their order. */
    static void check(Properties config, String[] args) {
        int count = Integer.parseInt(args[1]);
        Properties mine = Interop.with(config, "auto.offset.reset", "earliest", "isolation.level", args[2]);
        BitSet seen = new BitSet(count);
        Map<Integer, Integer> last = new HashMap<>();
        Map<Integer, Long> next = new HashMap<>();
        try (var consumer = new KafkaConsumer<>(mine, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> parts = consumer.partitionsFor(args[0]).stream().map(p -> new TopicPartition(p.topic(), p.partition())).toList();
            consumer.assign(parts);
            consumer.seekToBeginning(Collections.emptyList());
            long deadline = System.nanoTime() + Duration.ofMinutes(2).toNanos();
            while (seen.cardinality() < count) {
                Interop.want(System.nanoTime() < deadline, "only %d of %d records came", seen.cardinality(), count);
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofSeconds(1))) {
                    int n = look(r, parts.size());
                    Interop.want(!seen.get(n), "record %d came twice, at %s", n, r);
                    seen.set(n);
                    Integer before = last.put(r.partition(), n);
                    Interop.want(before == null || before < n, "record %d came after %s", n, before);
                    Long want = next.put(r.partition(), r.offset() + 1);
                    Interop.want(r.offset() == (want == null ? 0 : want), "offset %d, want %s", r.offset(), want);
                }
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(parts);
            Interop.same(ends.values().stream().mapToLong(v -> v).sum(), (long) count, "records by their end offsets");
            Interop.want(next.size() == parts.size(), "records in %d partitions of %d", next.size(), parts.size());
        }
        Interop.say("checked %d", count);
    }

    private static int look(ConsumerRecord<byte[], byte[]> r, int parts) {
        Header[] got = r.headers().toArray();
        Interop.want(got.length > 0, "no headers at %s", r);
        int n = ByteBuffer.wrap(got[0].value()).getInt();
        List<Header> want = headers(n);
        Interop.same(Arrays.asList(got), want, "headers of " + n);
        Interop.want(Arrays.equals(r.key(), key(n)), "key of %d: %s", n, r);
        Interop.want(Arrays.equals(r.value(), value(n)), "value of %d: %s", n, r);
        Interop.want(r.timestamp() == timestamp(n) && r.timestampType() == TimestampType.CREATE_TIME, "time of %d: %s", n, r);
        if (r.key() != null) {
            Interop.same(r.partition(), Utils.toPositive(Utils.murmur2(r.key())) % parts, "partition of " + n);
        }
        return n;
    }
}
