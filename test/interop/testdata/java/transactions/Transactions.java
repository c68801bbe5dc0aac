import java.io.FileInputStream;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of a Java client of any version from 2.5: java Transactions CONFIG PREFIX VERSION, which is that of transactions. Each scene has topics of its own. */
public class Transactions {
    private static final long LIMIT = 60_000; // milliseconds until a missing record is an error

    private final Properties config;
    private final String prefix;
    private final String version;
    private final Admin admin;

    private Transactions(Properties config, String prefix, String version) {
        this.version = version;
        this.config = config;
        this.prefix = prefix;
        this.admin = Admin.create(config);
    }

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        try (InputStream in = new FileInputStream(args[0])) {
            config.load(in);
        }
        try {
            new Transactions(config, args[1], args[2]).run();
            System.out.println("done");
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private void run() throws Exception {
        ends();
        twoTopics();
        open();
        offsets();
        fencing();
        timeout();
    }

    /** A commit, an abort, both without records, and records outside of transactions. */
    private void ends() throws Exception {
        String topic = create("ends", 2);
        try (KafkaProducer<String, String> p = producer("ends", LIMIT)) {
            p.initTransactions();
            for (String end : new String[] {"a", "x", "b", "", "y", "-", "c"}) {
                p.beginTransaction();
                for (int n = 0; n < 10 && !end.isEmpty() && !end.equals("-"); n++) {
                    p.send(new ProducerRecord<>(topic, n % 2, null, end + n));
                }
                if (end.equals("x") || end.equals("-")) {
                    p.abortTransaction();
                } else if (end.equals("y")) {
                    p.flush(); // else the abort drops what was not sent
                    p.abortTransaction();
                } else {
                    p.commitTransaction();
                }
            }
        }
        plain(topic, 0, "end");
        plain(topic, 1, "end");
        for (int part = 0; part < 2; part++) {
            List<String> committed = new ArrayList<>(), all = new ArrayList<>();
            for (String end : new String[] {"a", "b", "y", "c"}) {
                for (int n = part; n < 10; n += 2) {
                    all.add(end + n);
                    if (!end.equals("y")) {
                        committed.add(end + n);
                    }
                }
            }
            same(read(topic, part, "read_committed"), committed, "committed records of partition " + part);
            List<String> seen = read(topic, part, "read_uncommitted");
            seen.removeIf(v -> v.startsWith("x")); // a client may drop them
            same(seen, all, "records of partition " + part);
        }
        say("commit, abort, empty");
    }

    /** Two topics change together, or not at all. */
    private void twoTopics() throws Exception {
        String one = create("one", 1), two = create("two", 3);
        try (KafkaProducer<String, String> p = producer("topics", LIMIT)) {
            p.initTransactions();
            for (int n = 0; n < 6; n++) {
                p.beginTransaction();
                p.send(new ProducerRecord<>(one, 0, null, "n" + n));
                p.send(new ProducerRecord<>(two, n % 3, null, "n" + n));
                p.flush();
                if (n % 2 == 0) {
                    p.commitTransaction();
                } else {
                    p.abortTransaction();
                }
            }
        }
        plain(one, 0, "end");
        same(read(one, 0, "read_committed"), Arrays.asList("n0", "n2", "n4"), "committed records of the first topic");
        List<String> others = new ArrayList<>(), all = new ArrayList<>();
        for (int part = 0; part < 3; part++) {
            plain(two, part, "end");
            others.addAll(read(two, part, "read_committed"));
            all.addAll(read(two, part, "read_uncommitted"));
        }
        Collections.sort(others);
        Collections.sort(all);
        same(others, Arrays.asList("n0", "n2", "n4"), "committed records of the second topic");
        same(all, Arrays.asList("n0", "n1", "n2", "n3", "n4", "n5"), "records of the second topic");
        say("two topics");
    }

    /** An open transaction hides itself, and the records after it, from readers of committed records. */
    private void open() throws Exception {
        String topic = create("open", 1);
        try (KafkaProducer<String, String> p = producer("open", LIMIT)) {
            p.initTransactions();
            plain(topic, 0, "before");
            p.beginTransaction();
            p.send(new ProducerRecord<>(topic, 0, null, "within"));
            p.flush();
            plain(topic, 0, "after");
            TopicPartition at = new TopicPartition(topic, 0);
            for (String level : new String[] {"read_committed", "read_uncommitted"}) {
                boolean committed = level.equals("read_committed");
                try (KafkaConsumer<String, String> c = consumer(level, null)) {
                    same(c.endOffsets(Collections.singleton(at)).get(at), committed ? 1L : 3L, "the end that " + level + " sees");
                    c.assign(Collections.singleton(at));
                    c.seekToBeginning(c.assignment());
                    List<String> seen = new ArrayList<>();
                    for (long end = now() + LIMIT; now() < end && seen.size() < (committed ? 1 : 3);) {
                        c.poll(Duration.ofMillis(100)).forEach(r -> seen.add(r.value()));
                    }
                    c.poll(Duration.ofMillis(200)).forEach(r -> seen.add(r.value()));
                    same(seen, committed ? Arrays.asList("before") : Arrays.asList("before", "within", "after"), level + " during the transaction");
                }
            }
            p.commitTransaction();
        }
        plain(topic, 0, "end");
        same(read(topic, 0, "read_committed"), Arrays.asList("before", "within", "after"), "records after the transaction");
        say("the last stable offset");
    }

    /** Offsets of a group change with their transaction. Until its end they are unstable. */
    private void offsets() throws Exception {
        String in = create("in", 1), out = create("out", 1), group = prefix + "group";
        for (int n = 0; n < 30; n++) {
            plain(in, 0, "n" + n);
        }
        TopicPartition from = new TopicPartition(in, 0);
        try (KafkaProducer<String, String> p = producer("offsets", LIMIT); KafkaConsumer<String, String> c = consumer("read_committed", group)) {
            p.initTransactions();
            c.subscribe(Collections.singleton(in));
            int round = 0;
            for (long position = 0; position < 30; round++) {
                List<ConsumerRecord<String, String>> list = poll(c);
                same(list.get(0).offset(), position, "the first offset that was polled");
                long next = position + list.size();
                p.beginTransaction();
                for (ConsumerRecord<String, String> r : list) {
                    p.send(new ProducerRecord<>(out, 0, null, r.value()));
                }
                p.sendOffsetsToTransaction(Collections.singletonMap(from, new OffsetAndMetadata(next)), c.groupMetadata());
                if (round == 0) {
                    unstable(from, group);
                }
                if (round % 3 == 1) {
                    p.abortTransaction();
                    c.seek(from, position);
                } else {
                    p.commitTransaction();
                    position = next;
                }
                same(committed(c, from), position, "the committed offset");
            }
            want(round > 3, "only %d transactions", round);
        }
        plain(out, 0, "end");
        List<String> all = new ArrayList<>();
        for (int n = 0; n < 30; n++) {
            all.add("n" + n);
        }
        same(read(out, 0, "read_committed"), all, "records that were copied");
        say("offsets");
    }

    /** A reader of committed records waits for a stable offset. */
    private void unstable(TopicPartition at, String group) {
        try (KafkaConsumer<String, String> other = consumer("read_committed", group)) {
            OffsetAndMetadata now = other.committed(Collections.singleton(at), Duration.ofMillis(500)).get(at);
            throw new AssertionError("the offset within a transaction is " + now);
        } catch (TimeoutException e) {
            say("unstable: %s", e.getMessage());
        }
    }

    private long committed(KafkaConsumer<String, String> c, TopicPartition at) {
        OffsetAndMetadata o = c.committed(Collections.singleton(at)).get(at);
        return o == null ? 0 : o.offset();
    }

    /** A new producer with the same ID aborts the transaction of the old one, whose calls fail. */
    private void fencing() throws Exception {
        String topic = create("fenced", 1);
        try (KafkaProducer<String, String> old = producer("fenced", LIMIT); KafkaProducer<String, String> now = producer("fenced", LIMIT)) {
            old.initTransactions();
            old.beginTransaction();
            old.send(new ProducerRecord<>(topic, 0, null, "old"));
            old.flush();
            now.initTransactions();
            now.beginTransaction();
            now.send(new ProducerRecord<>(topic, 0, null, "new"));
            now.flush();
            refused("commit of a fenced producer", ProducerFencedException.class, old::commitTransaction);
            now.commitTransaction();
        }
        try (KafkaProducer<String, String> old = producer("fenced", LIMIT); KafkaProducer<String, String> now = producer("fenced", LIMIT)) {
            old.initTransactions();
            now.initTransactions();
            old.beginTransaction();
            old.send(new ProducerRecord<>(topic, 0, null, "late"));
            refused("a record of a fenced producer", KafkaException.class, old::commitTransaction);
        }
        plain(topic, 0, "end");
        same(read(topic, 0, "read_committed"), Arrays.asList("new"), "records of both producers");
        say("fencing");
    }

    /** A transaction without an end is aborted by the broker. */
    private void timeout() throws Exception {
        String topic = create("timeout", 1);
        KafkaProducer<String, String> p = producer("timeout", 1000);
        p.initTransactions();
        p.beginTransaction();
        p.send(new ProducerRecord<>(topic, 0, null, "late"));
        p.flush();
        plain(topic, 0, "end");
        same(read(topic, 0, "read_committed"), Collections.emptyList(), "records after the timeout");
        refused("a commit after the timeout", KafkaException.class, p::commitTransaction);
        p.close(Duration.ZERO);
        try (KafkaProducer<String, String> next = producer("timeout", 1000)) {
            next.initTransactions();
            next.beginTransaction();
            next.send(new ProducerRecord<>(topic, 0, null, "late"));
            next.flush();
            plain(topic, 0, "end");
            same(read(topic, 0, "read_committed", 2), Collections.emptyList(), "records after the second timeout");
            if (version.equals("1")) {
                refused("an abort after the timeout", ProducerFencedException.class, next::abortTransaction);
                return;
            }
            next.abortTransaction();
            next.beginTransaction();
            next.send(new ProducerRecord<>(topic, 0, null, "next"));
            next.commitTransaction();
        }
        plain(topic, 0, "end");
        same(read(topic, 0, "read_committed", 3), Arrays.asList("next"), "records of the next transaction");
        say("timeout");
    }

    private String create(String name, int partitions) throws Exception {
        admin.createTopics(Collections.singleton(new NewTopic(prefix + name, partitions, (short) 1))).all().get();
        return prefix + name;
    }

    private KafkaProducer<String, String> producer(String id, long timeout) {
        return new KafkaProducer<>(with("transactional.id", prefix + id, "transaction.timeout.ms", Long.toString(timeout)), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String level, String group) {
        Properties all = with("isolation.level", level, "auto.offset.reset", "earliest", "enable.auto.commit", "false", "max.poll.records", "7", "fetch.max.wait.ms", "100");
        all.put("group.id", group == null ? prefix + "none" : group);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private KafkaProducer<String, String> plain;

    /** Writes a record without a transaction. */
    private void plain(String topic, int partition, String value) throws Exception {
        if (plain == null) {
            plain = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        }
        plain.send(new ProducerRecord<>(topic, partition, null, value)).get();
    }

    private List<String> read(String topic, int partition, String level) {
        return read(topic, partition, level, 1);
    }

    /** Reads a partition until the record "end" came a number of times, and leaves these out. */
    private List<String> read(String topic, int partition, String level, int ends) {
        TopicPartition at = new TopicPartition(topic, partition);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> c = consumer(level, null)) {
            c.assign(Collections.singleton(at));
            c.seekToBeginning(c.assignment());
            while (ends > 0) {
                for (ConsumerRecord<String, String> r : poll(c)) {
                    if (r.value().equals("end")) {
                        ends--;
                    } else {
                        values.add(r.value());
                    }
                }
            }
        }
        return values;
    }

    /** The next records. */
    private List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> c) {
        List<ConsumerRecord<String, String>> list = new ArrayList<>();
        for (long end = now() + LIMIT; list.isEmpty();) {
            want(now() < end, "no record came from %s", c.assignment());
            c.poll(Duration.ofMillis(200)).forEach(list::add);
        }
        return list;
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }

    private Properties with(String... pairs) {
        Properties all = new Properties();
        all.putAll(config);
        for (int i = 0; i < pairs.length; i += 2) {
            all.put(pairs[i], pairs[i + 1]);
        }
        return all;
    }

    private static void refused(String what, Class<? extends Exception> type, Runnable action) {
        try {
            action.run();
        } catch (RuntimeException e) {
            say("%s: %s: %s", what, e.getClass().getSimpleName(), e.getMessage());
            if (!type.isInstance(e)) {
                throw new AssertionError(what + ": want " + type.getName(), e);
            }
            return;
        }
        throw new AssertionError(what + ": nothing was thrown, want " + type.getName());
    }

    private static void same(Object got, Object wanted, String what) {
        want(got.equals(wanted), "%s: %s, want %s", what, got, wanted);
    }

    private static void want(boolean claim, String format, Object... args) {
        if (!claim) {
            throw new AssertionError(String.format(format, args));
        }
    }

    private static void say(String format, Object... args) {
        System.out.println(String.format(format, args));
    }
}
