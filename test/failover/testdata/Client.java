import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A client of the failover campaign. Arguments: produce or consume, a topic, settings as name=value. */
public class Client {
    static synchronized void tell(String kind, Object... words) {
        var line = new StringBuilder(kind).append(' ').append(ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()));
        for (Object word : words) {
            line.append(' ').append(word);
        }
        System.out.println(line);
    }

    static void produce(String topic, Properties settings) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String value; (value = lines.readLine()) != null; ) {
                String number = value.split(" ")[0];
                producer.send(new ProducerRecord<>(topic, 0, null, value), (place, failure) -> {
                    if (failure == null) {
                        tell("ack", number, place.offset());
                    } else {
                        tell("lost", number, failure.getClass().getSimpleName());
                    }
                });
            }
        }
    }

    static void consume(String topic, Properties settings) {
        settings.put("auto.offset.reset", "none");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            var partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (true) {
                try {
                    for (var record : consumer.poll(Duration.ofSeconds(1))) {
                        tell("rec", record.offset(), record.value());
                    }
                } catch (KafkaException e) {
                    tell("err", e.getClass().getSimpleName());
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        for (int i = 2; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        if (args[0].equals("produce")) {
            produce(args[1], settings);
        } else {
            consume(args[1], settings);
        }
    }
}
