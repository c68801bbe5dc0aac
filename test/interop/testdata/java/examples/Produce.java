import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class Produce {
    public static void main(String[] args) {
        var settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BROKER"));
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "SCRAM-SHA-512");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required"
            + " username=\"seb\" password=\"" + System.getenv("KEY") + "\";");
        settings.put("compression.type", "zstd");

        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String[] plant : new String[][] {{"rose", "red"}, {"lily", "white"}}) {
                producer.send(new ProducerRecord<>("plants", plant[0], plant[1]), (place, failure) -> {
                    System.out.println(failure == null ? "stored at " + place : "not stored: " + failure);
                });
            }
        } // waits until all is stored
    }
}
