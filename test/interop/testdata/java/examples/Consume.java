import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Consume {
    public static void main(String[] args) {
        var settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BROKER"));
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "SCRAM-SHA-512");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required"
            + " username=\"seb\" password=\"" + System.getenv("KEY") + "\";");
        settings.put("group.id", "gardeners");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");

        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("plants"));
            for (int left = 2; left > 0;) {
                var records = consumer.poll(Duration.ofSeconds(1));
                for (var record : records) {
                    System.out.println(record.key() + " is " + record.value() + " at " + record.offset());
                    left--;
                }
                consumer.commitSync(); // after the work: what was not done is read again
            }
        }
    }
}
