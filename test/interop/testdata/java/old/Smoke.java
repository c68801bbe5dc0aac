import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What clients of all versions can: a topic, records, a group with its commits. Only methods that all of them have. */
public class Smoke {
    private static final int COUNT = 2000;

    @SuppressWarnings("deprecation")
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        try (InputStream in = new FileInputStream(args[0])) {
            config.load(in);
        }
        String topic = args[1];
        try (AdminClient admin = AdminClient.create(config)) {
            admin.createTopics(Collections.singleton(new NewTopic(topic, 2, (short) 1))).all().get();
            if (!admin.listTopics().names().get().contains(topic)) {
                throw new AssertionError("the topic is not listed");
            }
        }
        config.put("enable.idempotence", "true");
        config.put("acks", "all");
        config.put("compression.type", "lz4");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int n = 0; n < COUNT; n++) {
                producer.send(new ProducerRecord<>(topic, n % 2, 1_700_000_000_000L + n, "k" + n, "v" + n));
            }
        }
        config.put("group.id", topic);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        // Two consumers one after the other: the second goes on where the first has committed.
        int first = read(config, topic, 0, COUNT / 2);
        read(config, topic, first, COUNT);
        System.out.println("done");
        System.exit(0); // some old clients leave threads behind
    }

    @SuppressWarnings("deprecation")
    private static int read(Properties config, String topic, int from, int until) {
        int seen = from;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Collections.singleton(topic));
            long deadline = System.currentTimeMillis() + 60_000;
            while (seen < until) {
                if (System.currentTimeMillis() > deadline) {
                    throw new AssertionError("only " + seen + " records came");
                }
                for (ConsumerRecord<String, String> r : consumer.poll(500)) {
                    long n = r.offset() * 2 + r.partition();
                    if (!r.key().equals("k" + n) || !r.value().equals("v" + n) || r.timestamp() != 1_700_000_000_000L + n) {
                        throw new AssertionError("want number " + n + ": " + r);
                    }
                    seen++;
                }
                consumer.commitSync();
            }
        }
        return seen;
    }
}
